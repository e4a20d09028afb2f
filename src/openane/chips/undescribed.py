"""Generations that are recognised by name while the layout of their tasks is not known: H11 and H12."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from openane.chips.arithmetic import Arithmetic
from openane.chips.chip import Breach, EmittedTask, NamedSlots, Passage, Rule, TaskFields, TaskLink
from openane.chips.facts import Facts
from openane.chips.h13.limits import LIMITS as H13_LIMITS
from openane.chips.limits import Limits
from openane.engine import Operation, Space
from openane.errors import ProgramError, UnsupportedError
from openane.record_classes import dataclass
from openane.registers import Bank

if TYPE_CHECKING:
    from openane.chips.emit.exponents import Contents
    from openane.chips.emit.tiling import Tiling

CORES = 8  # of A12 and A13
LIMITS = replace(H13_LIMITS, lanes=replace(H13_LIMITS.lanes, cores=CORES),
                 coefficients=replace(H13_LIMITS.coefficients, cores=CORES),
                 assumed=tuple(f.name for f in fields(Limits) if f.name != "assumed"))
NO_TABLE = Bank(())
ASSUMED = Arithmetic()


def rules_known(fields: TaskFields, link: TaskLink) -> Iterator[Breach]:
    """What the fields of a task may hold must be known for the generation: it is not where a generation is
    recognised by name alone."""
    yield Breach("Header", "a generation whose rules are known", "one whose rules are not")


@dataclass(frozen=True)
class UndescribedChip:
    """A generation of which nothing but names and numbers is known: everything about its tasks is refused by name."""

    name: str
    facts: Facts
    header: Bank = NO_TABLE
    bank: Bank = NO_TABLE
    limits: Limits = LIMITS
    arithmetic: Arithmetic = ASSUMED
    linked: bool = True
    rules: tuple[Rule, ...] = (rules_known,)

    def next_task(self, words: Sequence[int]) -> tuple[int, int]:
        """ProgramError."""
        raise self._unknown()

    def task_size(self, words: Sequence[int]) -> int:
        """ProgramError."""
        raise self._unknown()

    def decode(self, words: Sequence[int]) -> TaskFields:
        """ProgramError."""
        raise self._unknown()

    def encode(self, fields: TaskFields) -> tuple[int, ...]:
        """ProgramError."""
        raise self._unknown()

    def addresses(self, fields: TaskFields) -> tuple[int, ...]:
        """ProgramError."""
        raise self._unknown()

    def operation(self, words: Sequence[int]) -> Operation:
        """ProgramError."""
        raise self._unknown()

    def slots(self, words: Sequence[int]) -> NamedSlots:
        """ProgramError."""
        raise self._unknown()

    def passages(self, fields: TaskFields) -> tuple[Passage, ...]:
        """ProgramError."""
        raise self._unknown()

    def enabled_slots(self, fields: TaskFields) -> Mapping[str, int]:
        """ProgramError."""
        raise self._unknown()

    def register(self, part: str, space: Space) -> str:
        """The operand itself: no register is known."""
        return part

    def tiling(self, operations: Sequence[Operation]) -> Tiling:
        """UnsupportedError."""
        raise self._not_compiled()

    def emit(self, operations: Sequence[Operation], layout: str = "macos26",
             tiling: Tiling | None = None, contents: Contents | None = None) -> tuple[EmittedTask, ...]:
        """UnsupportedError."""
        raise self._not_compiled()

    def _not_compiled(self) -> UnsupportedError:
        return UnsupportedError(f"target {self.name}", "programs are compiled for generations whose tasks are known",
                                limit="a generation whose tasks are known", found=self.name,
                                remedy="'ane chips' says which generations programs are compiled for")

    def relayout(self, tasks: Sequence[Sequence[int]], layout: str,
                 slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
        """ProgramError."""
        raise self._unknown()

    def _unknown(self) -> ProgramError:
        return ProgramError(f"how tasks of {self.name} are laid out is not known: files of this generation are "
                            "recognised, not read")
