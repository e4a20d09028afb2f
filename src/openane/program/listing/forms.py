"""What the text of a task may leave out: usual register runs, and fields at their default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from openane.chips import Chip
from openane.registers import Bank, FieldError, Value

Runs = tuple[tuple[int, int], ...]

UNSET = "unset"
"""The value printed for a field whose zero bits have no described meaning while its default is not zero."""


def usual_runs(chip: Chip, words: int) -> Runs | None:
    """The register runs a task of `words` words has unless its text says otherwise; None where nothing is usual."""
    forms: Mapping[str, Runs] = getattr(chip, "forms", {})
    fitting = [runs for runs in forms.values() if words - body_words(runs) in header_sizes(chip)]
    return fitting[0] if len(fitting) == 1 else None


def body_words(runs: Runs) -> int:
    """Words the runs take in a descriptor, the word before each included."""
    return sum(1 + count for _, count in runs)


def header_sizes(chip: Chip) -> tuple[int, ...]:
    """How many header words a task may have: all, or all but the last, which only some tasks have."""
    words = len(chip.header.by_address)
    return words, words - 1


def header_addresses(chip: Chip, words: int) -> list[int]:
    """Addresses of the first `words` header words."""
    return sorted(chip.header.by_address)[:words]


@cache
def _fillers(bank: Bank) -> dict[int, tuple[tuple[str, str, int, Value, bool], ...]]:
    """Per address: register, full field name, mask, default, and whether the default's bits are not zero."""
    table = {}
    for address, (name, register) in bank.by_address.items():
        rows = []
        for field in register.fields:
            value = field.default_value()
            try:
                bits = field.encode(value)
            except FieldError:
                continue
            rows.append((name, f"{name}.{field.name}", field.mask, value, bits != 0))
        table[address] = tuple(rows)
    return table


def defaults(bank: Bank, addresses: Iterable[int], rest: Mapping[str, int]) -> dict[str, Value]:
    """Every field of the registers at `addresses` at its default, where `rest` does not hold its bits."""
    table = _fillers(bank)
    return {name: value for address in addresses for register, name, mask, value, _ in table.get(address, ())
            if not rest.get(register, 0) & mask}


def unset(bank: Bank, addresses: Iterable[int], values: Mapping[str, Value], rest: Mapping[str, int]) -> list[str]:
    """Fields that must be printed as unset: absent, zero, and not zero by default."""
    table = _fillers(bank)
    return [name for address in addresses for register, name, mask, _, nonzero in table.get(address, ())
            if nonzero and name not in values and not rest.get(register, 0) & mask]
