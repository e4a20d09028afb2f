"""How generations write the heads of register runs: a word before the words of a run that says which registers follow.

H13 and before: count less one, and a byte address. From H14 on the address is a word index, and there are two forms:

    dense   count less one; the registers follow one another. Where the words are addresses, the head names the
            base-address slot they are relative to.
    sparse  the register at the address, and those of the 16 behind it whose bit is set in a mask.
"""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache
from typing import Protocol

from openane.chips.tables import P, S, flag, uint
from openane.record_classes import dataclass
from openane.registers import Fields, Register

REMEMBERED = 1 << 12
VIRTUAL = 1 << 28
"""Addresses from here on are no register's: tables use them for what a stream holds besides register writes."""

LINKED_HEAD = Register("RegisterRun", 0, (
    uint("Address", 25, 0, P, "byte address of the first register of the run"),
    uint("Count", 31, 26, P, "words in the run", minus=1)), doc="The word before each run of register writes")

_ADDRESS = uint("Address", 14, 0, S, "byte address of the first register of the run", shift=2)
_SPARSE = flag("Sparse", 31, S)
SLOT = uint("Slot", 27, 23, S, "base-address slot")
RELATIVE = flag("Relative", 29, S, "the words are relative to the address in the slot")
REACH = 16
"""Words behind the first that a sparse run reaches."""
FOLLOWING = uint("Following", 30, 15, S, "bit n: the register n + 1 words behind the first is written too")

DENSE_HEAD = Register("Dense", 0, (_ADDRESS, uint("Count", 20, 15, S, "words in the run", minus=1), SLOT, RELATIVE,
                                   _SPARSE))
SPARSE_HEAD = Register("Sparse", 0, (_ADDRESS, FOLLOWING, _SPARSE))
_MASK = Register("Mask", 0, tuple(flag(f"Word{n}", n - 1) for n in range(1, 17)))


@dataclass(frozen=True, slots=True)
class RegisterRun:
    """The byte addresses a run writes, and what its head says besides: fields and bits without a description."""

    addresses: tuple[int, ...]
    sparse: bool = False
    said: Fields = field(default_factory=dict)
    rest: int = 0


class RunHeads(Protocol):
    """A way of writing the heads of runs."""

    def read(self, word: int) -> RegisterRun | None:
        """The run this word is the head of; None when it is none."""
        ...

    def write(self, run: RegisterRun) -> int:
        """The head of a run. FieldError when a head cannot say it."""
        ...

    def addresses(self, first: int, count: int, said: Fields | None) -> tuple[int, ...] | None:
        """The addresses of a run of `count` words; `said` is what a sparse head says, None for a dense one. None when
        the count is not what the head says."""
        ...


class LinkedHeads:
    """Heads of H13 and before."""

    def read(self, word: int) -> RegisterRun | None:
        """The run this word is the head of; None when it is none."""
        return _linked(word)

    def write(self, run: RegisterRun) -> int:
        """The head of a run."""
        return LINKED_HEAD.encode({"Address": run.addresses[0], "Count": len(run.addresses)})

    def addresses(self, first: int, count: int, said: Fields | None) -> tuple[int, ...] | None:
        """The addresses of a run: all dense."""
        return _dense(first, count) if said is None else None


class IndexedHeads:
    """Heads from H14 on."""

    def read(self, word: int) -> RegisterRun | None:
        """The run this word is the head of: every word is one."""
        return _indexed(word)

    def write(self, run: RegisterRun) -> int:
        """The head of a run."""
        first = {"Address": run.addresses[0], "Sparse": int(run.sparse)}
        if run.sparse:
            return SPARSE_HEAD.encode({**first, **run.said}, run.rest)
        return DENSE_HEAD.encode({**first, "Count": len(run.addresses), **run.said}, run.rest)

    def addresses(self, first: int, count: int, said: Fields | None) -> tuple[int, ...] | None:
        """The addresses of a run."""
        if said is None:
            return _dense(first, count)
        found = _masked(first, int(said.get(FOLLOWING.name, 0)))
        return found if len(found) == count else None


@lru_cache(maxsize=REMEMBERED)
def _linked(word: int) -> RegisterRun | None:
    """Remembered: the tasks of a program repeat most of their heads."""
    head, rest = LINKED_HEAD.decode(word)
    first = int(head["Address"])
    return None if rest or first % 4 else RegisterRun(_dense(first, int(head["Count"])))


@lru_cache(maxsize=REMEMBERED)
def _indexed(word: int) -> RegisterRun:
    """The same for heads that number their registers."""
    head, rest = DENSE_HEAD.decode(word)
    first = int(head["Address"])
    if not head["Sparse"]:
        said = {name: head[name] for name in (SLOT.name, RELATIVE.name)}
        return RegisterRun(_dense(first, int(head["Count"])), False, said, rest)
    mask = SPARSE_HEAD.decode(word)[0][FOLLOWING.name]
    return RegisterRun(_masked(first, int(mask)), True, {FOLLOWING.name: mask})


def _dense(first: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + 4 * count, 4))


def _masked(first: int, mask: int) -> tuple[int, ...]:
    bits, _ = _MASK.decode(mask)
    return (first, *(first + 4 * n for n, bit in enumerate(bits.values(), 1) if bit))
