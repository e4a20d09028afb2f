"""Tasks as text: what a task does in words, then every register field that is not at its default, block by block.

    task 0  at 0x0, 157 words
      ; Convolution 3x3: x 1x3x32x32 -> y 1x16x32x32, relu, weights from constants+0x0 for 16 cores
      Common                    ; dimensions and operation of the task
        InDim.W            512  ; width of the source
        rest InDim   0x8000000  ; bits no field describes

Bytes and event masks are hexadecimal, all other numbers decimal. What follows a semicolon is a comment. Register runs
are stated where they are not the usual ones; a descriptor that is none is shown as its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from openane.chips import Chip, TaskFields
from openane.engine import describe
from openane.errors import ProgramError
from openane.program.listing.forms import UNSET, body_words, header_addresses, unset, usual_runs
from openane.program.listing.lexer import comment
from openane.program.listing.words import Names, in_words
from openane.program.model import Task
from openane.record_classes import dataclass
from openane.registers import Bank, Evidence, Field, Value

UNDESCRIBED = "undescribed"
"""The block under which words at addresses no register has are listed."""
WORDS_PER_LINE = 8
LINE = 120
ARRAY = re.compile(r"(\w+)\[(\d+)\]\.(\w+)")


class RestBits(NamedTuple):
    """Words of a task with bits that no field describes, and how many such bits are set."""

    words: int
    bits: int


def task_lines(chip: Chip | None, index: int, task: Task, names: Names | None = None) -> Iterator[str]:
    """Lines for one task; `names` says what its slots are called. Without a chip the words are shown."""
    yield f"task {index}  at {task.offset:#x}, {len(task.words)} words"
    try:
        fields = _decoded(chip, task)
    except ProgramError as error:
        yield f"  ; not a task descriptor: {comment(str(error))}"
        yield from raw_lines(task)
        return
    if chip is None or fields is None:
        yield from raw_lines(task)
        return
    yield f"  ; {comment(summary(chip, task, names))}"
    yield from _fields(chip, task, fields)
    if fields.records != usual_runs(chip, len(task.words)):
        yield "  records  " + "  ".join(f"{address:#x} x{count}" for address, count in fields.records)


def summary(chip: Chip, task: Task, names: Names | None = None) -> str:
    """One line: the engine operation a task stands for, or why it is none that is described."""
    try:
        operation = chip.operation(task.words)
    except ProgramError as error:
        return f"operation not described: {error}"
    return describe(operation) if names is None else in_words(operation, names)


def rest_bits(chip: Chip, task: Task) -> RestBits:
    """What of a task no field describes. All of it when it does not decode."""
    try:
        rest = chip.decode(task.words).rest.values()
    except ProgramError:
        rest = task.words  # type: ignore[assignment]
    return RestBits(sum(1 for bits in rest if bits), sum(bits.bit_count() for bits in rest))


def _decoded(chip: Chip | None, task: Task) -> TaskFields | None:
    """The fields, when they say all of the task."""
    if chip is None:
        return None
    fields = chip.decode(task.words)
    return fields if tuple(chip.encode(fields)) == task.words else None


@dataclass(frozen=True, slots=True)
class _Row:
    """One printed line: the block, the name within it, the value and what it means."""

    block: str
    name: str
    value: str
    note: str


def _fields(chip: Chip, task: Task, fields: TaskFields) -> Iterator[str]:
    """Per block its name, then the fields that differ from their defaults and the bits nobody describes."""
    rows = list(_rows(chip, task, fields))
    name_width = max((len(row.name) for row in rows), default=0)
    value_width = max((len(row.value) for row in rows), default=0)
    notes = {block.name: block.doc for bank in (chip.header, chip.bank) for block in bank.blocks}
    for block, group in groupby(rows, key=lambda row: row.block):
        yield _noted(f"  {block}", notes.get(block, "words at addresses no register has"))
        for row in group:
            yield _noted(f"    {row.name:<{name_width}}  {row.value:>{value_width}}", row.note)


def _rows(chip: Chip, task: Task, fields: TaskFields) -> Iterator[_Row]:
    """Rows block by block in stream order; a block's undescribed bits follow its fields."""
    missing = _unset(chip, task, fields)
    blocks = dict.fromkeys(block_of(name) for name in (*fields.values, *missing, *fields.rest))
    rows: dict[str, list[_Row]] = {block: [] for block in blocks}
    for name, value in fields.values.items():
        rows[block_of(name)] += _field_row(chip, name, value)
    for name in missing:
        rows[block_of(name)].append(_Row(block_of(name), name.partition(".")[2], UNSET, "zero, which has no name"))
    for block in blocks:
        yield from _merged(rows[block])
        for name, bits in fields.rest.items():
            if block_of(name) == block:
                within = name if name.startswith("@") else f"rest {name.partition('.')[2]}"
                yield _Row(block, within, f"{bits:#x}", "bits no field describes")


def block_of(name: str) -> str:
    """The block of `Block.Register.Field`; words without a register are `undescribed`."""
    return UNDESCRIBED if name.startswith("@") else name.partition(".")[0]


def bank_of(chip: Chip, block: str) -> Bank:
    """The bank that has `block`: the header's or the stream's."""
    return chip.header if block in chip.header.block_names else chip.bank


def _unset(chip: Chip, task: Task, fields: TaskFields) -> list[str]:
    header = header_addresses(chip, len(task.words) - body_words(fields.records))
    return (unset(chip.header, header, fields.values, fields.rest)
            + unset(chip.bank, chip.addresses(fields), fields.values, fields.rest))


def _field_row(chip: Chip, name: str, value: Value) -> Iterator[_Row]:
    block = block_of(name)
    field = bank_of(chip, block).locate(name)[2]
    if repr(value) == repr(field.default_value()):  # by repr: -0.0 is not the default 0.0
        return
    note = f"{field.doc} (inferred)".strip() if field.evidence is Evidence.INFERRED else field.doc
    yield _Row(block, name.partition(".")[2], value_text(field, value), note)


def _merged(rows: list[_Row]) -> list[_Row]:
    """Neighbours of an array with the same value on one line: `CoeffDMAConfig[0..15].En`."""
    merged: dict[tuple[str, str, str, int], tuple[_Row, int]] = {}
    latest: dict[tuple[str, str, str], tuple[str, str, str, int]] = {}
    for row in rows:
        match = ARRAY.fullmatch(row.name)
        if match is None:
            merged[row.name, "", "", 0] = row, 0
            continue
        array, index, field = match[1], int(match[2]), match[3]
        same = (array, field, row.value)
        key = latest.get(same)
        if key is None or merged[key][1] != index - 1:
            key = latest[same] = (*same, index)
        merged[key] = merged.get(key, (row, index))[0], index
    return [row if last == start else replace(row, name=f"{array}[{start}..{last}].{field}")
            for (array, field, _, start), (row, last) in merged.items()]


def value_text(field: Field, value: Value) -> str:
    """A value as the text form writes it: hexadecimal where it counts bytes or is a mask of events."""
    hexadecimal = field.shift > 0 or field.align > 1 or field.name in ("Offset", "Events")
    return f"{value:#x}" if isinstance(value, int) and hexadecimal else str(value)


def _noted(line: str, doc: str) -> str:
    """The line with the first sentence line of `doc` as a comment, cut at a word where it would grow too long."""
    note, room = doc.strip().partition("\n")[0], LINE - len(line) - len("  ; ")
    if len(note) > room:
        note = note[:max(room - len(" ..."), 0)].rpartition(" ")[0] + " ..."
    return f"{line}  ; {note}" if note else line


def raw_lines(task: Task) -> Iterator[str]:
    """A task as its words."""
    for start in range(0, len(task.words), WORDS_PER_LINE):
        words = " ".join(f"{word:08x}" for word in task.words[start:start + WORDS_PER_LINE])
        yield f"  words  {words}  ; {start * 4:#06x}"
