"""The text form of a program: per task what it does, then every register field that is not at its default.

    task 0  at 0x0, 157 words
      ; Convolution(...) -> ...
      Common                    ; dimensions and operation of the task
        InDim.Win          512  ; width of the source
        rest InDim    0x8000000 ; bits no field describes

Numbers counted in bytes are hexadecimal, all others decimal. What follows a semicolon is a comment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from openane.chips import Chip, TaskFields, get_chip
from openane.engine import describe
from openane.errors import ProgramError
from openane.program.model import Buffer, Program, Task
from openane.registers import Evidence, Field, Value

WORDS_PER_LINE = 8
LINE = 120
ARRAY = re.compile(r"(\w+)\[(\d+)\]\.(\w+)")


def disassemble(program: Program) -> Iterator[str]:
    """Lines of the text form of `program`, without line ends. UnsupportedError when its chip is not described."""
    chip = get_chip(program.chip)
    yield from _head(program)
    for index, task in enumerate(program.tasks):
        yield ""
        yield from disassemble_task(chip, index, task)


def disassemble_task(chip: Chip, index: int, task: Task) -> Iterator[str]:
    """Lines for one task. A descriptor that does not decode is shown as raw words with the reason."""
    yield f"task {index}  at {task.offset:#x}, {len(task.words)} words"
    try:
        fields = chip.decode(task.words)
    except ProgramError as error:
        yield f"  ; not a task descriptor: {error}"
        yield from _raw(task)
        return
    yield f"  ; {summary(chip, task)}"
    yield from _fields(chip, fields)
    records = [f"{address:#x} x{count}" for address, count in fields.records]
    yield f"  records {', '.join([f'header x{_header_words(chip, fields)}', *records])}"


def summary(chip: Chip, task: Task) -> str:
    """One line: the engine operation a task stands for, or why it is none that is described."""
    try:
        return describe(chip.operation(task.words))
    except ProgramError as error:
        return f"operation not described: {error}"


def _head(program: Program) -> Iterator[str]:
    yield f"program {program.name}"
    yield f"  chip       {program.chip}"
    for key, value in program.origin.items():
        yield f"  ; {key:<8} {value}"
    yield f"  constants  {len(program.constants)} bytes"
    width = max((len(b.name) for b in program.buffers), default=0)
    for buffer in sorted(program.buffers, key=lambda b: b.slot):
        yield f"  {buffer.role:<9}  {buffer.name:<{width}}  slot {buffer.slot:<2}  {_surface(buffer)}"


def _surface(buffer: Buffer) -> str:
    if buffer.layout is None:
        return f"{buffer.size} bytes"
    layout = buffer.layout
    text = (f"{buffer.size} bytes  {layout.dtype} {'x'.join(map(str, layout.shape))}"
            f"  strides {'/'.join(f'{stride:#x}' for stride in layout.strides)}")
    return text if layout.interleave == 1 else f"{text} interleave {layout.interleave}"


def _fields(chip: Chip, fields: TaskFields) -> Iterator[str]:
    """Per block its name, then the fields that differ from their defaults and the bits nobody describes."""
    rows = list(_rows(chip, fields))
    name_width = max((len(row.name) for row in rows), default=0)
    value_width = max((len(row.value) for row in rows), default=0)
    blocks = {block.name: block for bank in (chip.header, chip.bank) for block in bank.blocks}
    for block, group in groupby(rows, key=lambda row: row.block):
        yield _noted(f"  {block}", blocks[block].doc if block in blocks else "")
        for row in group:
            yield _noted(f"    {row.name:<{name_width}}  {row.value:>{value_width}}", row.note)


@dataclass(frozen=True, slots=True)
class _Row:
    """One printed line: the block, the name within it, the value and what it means."""

    block: str
    name: str
    value: str
    note: str


def _rows(chip: Chip, fields: TaskFields) -> Iterator[_Row]:
    """Rows block by block in stream order; a block's undescribed bits follow its fields."""
    blocks = dict.fromkeys(name.partition(".")[0] for name in (*fields.values, *fields.rest))
    for block in blocks:
        yield from _merged([row for name, value in fields.values.items() if name.partition(".")[0] == block
                            for row in _field_row(chip, block, name, value)])
        for name, bits in fields.rest.items():
            if name.partition(".")[0] == block:
                yield _Row(block, f"rest {name.partition('.')[2]}".rstrip(), f"{bits:#x}", "bits no field describes")


def _field_row(chip: Chip, block: str, name: str, value: Value) -> Iterator[_Row]:
    bank = chip.header if any(b.name == block for b in chip.header.blocks) else chip.bank
    field = bank.locate(name)[2]
    if repr(value) == repr(field.default_value()):  # by repr: -0.0 is not the default 0.0
        return
    note = f"{field.doc} (inferred)".strip() if field.evidence is Evidence.INFERRED else field.doc
    yield _Row(block, name.partition(".")[2], _value(field, value), note)


def _merged(rows: list[_Row]) -> list[_Row]:
    """Neighbours of an array with the same value on one line: `CoeffDMAConfig[0..15].En`."""
    merged: dict[tuple[str, str, str, int], tuple[_Row, int]] = {}
    for row in rows:
        match = ARRAY.fullmatch(row.name)
        if match is None:
            merged[row.name, "", "", 0] = row, 0
            continue
        array, index, field = match[1], int(match[2]), match[3]
        key = next((k for k, (_, last) in merged.items()
                    if k[:3] == (array, field, row.value) and last == index - 1), (array, field, row.value, index))
        merged[key] = merged.get(key, (row, index))[0], index
    return [row if last == start else replace(row, name=f"{array}[{start}..{last}].{field}")
            for (array, field, _, start), (row, last) in merged.items()]


def _value(field: Field, value: Value) -> str:
    counts_bytes = field.shift > 0 or field.align > 1
    return f"{value:#x}" if isinstance(value, int) and counts_bytes else str(value)


def _noted(line: str, doc: str) -> str:
    """The line with the first sentence line of `doc` as a comment, cut at a word where it would grow too long."""
    note, room = doc.strip().partition("\n")[0], LINE - len(line) - len("  ; ")
    if len(note) > room:
        note = note[:room - len(" ...")].rpartition(" ")[0] + " ..."
    return f"{line}  ; {note}" if note else line


def _header_words(chip: Chip, fields: TaskFields) -> int:
    present = {name.rpartition(".")[0] for name in fields.values} | set(fields.rest)
    return len(present & set(chip.header.by_name))


def _raw(task: Task) -> Iterator[str]:
    for start in range(0, len(task.words), WORDS_PER_LINE):
        words = " ".join(f"{word:08x}" for word in task.words[start:start + WORDS_PER_LINE])
        yield f"    {start * 4:#06x}  {words}"
