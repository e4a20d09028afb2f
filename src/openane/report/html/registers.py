"""Every task's registers for people: the fields that are not at their default, what each means and how that is known.

All of it is read from the chip's tables. Most tasks repeat most fields of the one before, so a task states what has
changed: [field, value, field, value, ...] by number, value -1 where a field is back at its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from openane.chips import Chip, get_chip
from openane.errors import ProgramError
from openane.program import Program
from openane.program.listing.tasks import UNDESCRIBED, bank_of, block_of, value_text
from openane.registers.field import Value

GONE = -1
REST = "bits no field describes"


class _Tables:
    """Fields and values by number, in the order they are met."""

    def __init__(self) -> None:
        self.fields: dict[tuple[str, str], int] = {}
        self.described: list[list[str]] = []
        self.values: dict[str, int] = {}
        self._known: dict[tuple[str, str, str], tuple[int, int] | None] = {}

    def entry(self, chip: Chip, name: str, value: Value) -> tuple[int, int] | None:
        """The numbers of a field and of its value; None at its default. Remembered: tasks repeat most of theirs."""
        key = (chip.name, name, repr(value))  # by repr: -0.0 is not the default 0.0
        if key not in self._known:
            field = bank_of(chip, block_of(name)).locate(name)[2]
            default = key[2] == repr(field.default_value())
            self._known[key] = None if default else (self.field(chip, name), self.value(value_text(field, value)))
        return self._known[key]

    def field(self, chip: Chip, name: str) -> int:
        """The number of `Block.Register.Field` of a chip, or of a register's undescribed bits (`rest ...`)."""
        key = (chip.name, name)
        if key not in self.fields:
            self.fields[key] = len(self.described)
            self.described.append(_described(chip, name))
        return self.fields[key]

    def value(self, text: str) -> int:
        """The number of a value."""
        return self.values.setdefault(text, len(self.values))


def registers(programs: Sequence[Program]) -> dict[str, Any]:
    """`fields` ([block, name, bits, meaning, evidence] each), `values` (texts), `blocks` (name to meaning), `tasks`:
    the changes of every task of all programs. A task that is no descriptor of its chip has none set."""
    tables, changes, blocks = _Tables(), list[list[int]](), dict[str, str]()
    before: dict[int, int] = {}
    for program in programs:
        chip = get_chip(program.chip)
        blocks |= {block.name: block.doc for bank in (chip.header, chip.bank) for block in bank.blocks}
        for task in program.tasks:
            now = dict(_fields(chip, task.words, tables))
            changed = {field: value for field, value in now.items() if before.get(field) != value}
            changed |= dict.fromkeys(before.keys() - now.keys(), GONE)
            changes.append([number for pair in sorted(changed.items()) for number in pair])
            before = now
    return {"fields": tables.described, "values": list(tables.values), "blocks": blocks, "tasks": changes}


def _fields(chip: Chip, words: Sequence[int], tables: _Tables) -> Iterator[tuple[int, int]]:
    try:
        fields = chip.decode(words)
    except ProgramError:
        return
    for name, value in fields.values.items():
        entry = tables.entry(chip, name, value)
        if entry is not None:
            yield entry
    for name, bits in fields.rest.items():
        yield tables.field(chip, f"rest {name}"), tables.value(f"{bits:#x}")


def _described(chip: Chip, name: str) -> list[str]:
    if name.startswith("rest "):
        where = name.removeprefix("rest ")
        block = UNDESCRIBED if where.startswith("@") else block_of(where)
        return [block, f"rest {where if block == UNDESCRIBED else where.partition('.')[2]}", "", REST, ""]
    register, field = bank_of(chip, block_of(name)).locate(name)[1:]
    meaning = "; ".join(dict.fromkeys(text for text in (field.doc, register.doc) if text))
    return [block_of(name), name.partition(".")[2], field.bits, meaning, str(field.evidence)]
