"""Changing a program in place: constants rewritten, register fields set, everything else as it was."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from openane.chips import get_chip
from openane.errors import ProgramError
from openane.program.model import ByteRange, Constants, Program, Task
from openane.program.verify import verify
from openane.record_classes import dataclass
from openane.registers import Value

BLOCK = 4096


@dataclass(frozen=True, slots=True)
class Patched:
    """A program with other constants, and the bytes of them that changed."""

    program: Program
    ranges: tuple[ByteRange, ...]

    @property
    def changed(self) -> int:
        """Bytes that changed."""
        return sum(end - start for start, end in self.ranges)


def patch_constants(program: Program, pieces: Mapping[int, bytes]) -> Patched:
    """The program with each piece written at its byte offset of the constants, which keep their size.

    ProgramError when a piece does not lie in the constants.
    """
    data = bytearray(program.constants)
    for offset, piece in pieces.items():
        if not 0 <= offset <= offset + len(piece) <= len(data):
            raise ProgramError(f"{len(piece)} bytes at constants+{offset:#x} do not lie in the {len(data)} bytes of "
                               "constants; a patch cannot make them larger")
        data[offset:offset + len(piece)] = piece
    return Patched(replace(program, constants=bytes(data)), tuple(changed_ranges(program.constants, bytes(data))))


def changed_ranges(before: Constants, after: Constants) -> Iterator[ByteRange]:
    """The runs of bytes that differ. ProgramError when the sizes do."""
    if len(before) != len(after):
        raise ProgramError(f"the constants have {len(before)} bytes before and {len(after)} after")
    start: int | None = None
    for base in range(0, len(before), BLOCK):
        a, b = before[base:base + BLOCK], after[base:base + BLOCK]
        if a == b:
            if start is not None:
                yield start, base
                start = None
            continue
        for index, (x, y) in enumerate(zip(a, b, strict=True), base):
            if x != y and start is None:
                start = index
            elif x == y and start is not None:
                yield start, index
                start = None
    if start is not None:
        yield start, len(before)


def meets(ranges: Sequence[ByteRange], low: int, high: int) -> bool:
    """Whether one of the ranges, which are ascending and apart, has a byte in [low, high)."""
    before_end = bisect_left(ranges, (high, 0))
    return before_end > 0 and ranges[before_end - 1][1] > low


def edit_task(program: Program, index: int, fields: Mapping[str, Value], *, checked: bool = True) -> Program:
    """The program with fields of task number `index` set: {"Common.InDim.W": 8}.

    Only the bits of these fields change. ProgramError names the task and the field when a name is unknown, a value does
    not fit, the task does not write the register, or the bits have a value without description. The result is verified
    again, VerifyError listing what the edit broke; `checked=False` leaves that to the caller.
    """
    if not 0 <= index < len(program.tasks):
        raise ProgramError(f"there is no task {index}; the program has tasks 0 to {len(program.tasks) - 1}")
    chip, task = get_chip(program.chip), program.tasks[index]
    before = chip.decode(task.words)
    known = {*_names(program), *before.values}
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(str(name)[:80], known, n=3)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise ProgramError(f"unknown field{hint}", task=index, field=str(name))
    try:
        words = chip.encode(replace(before, values={**before.values, **fields}))
    except ProgramError as error:
        raise ProgramError(str(error), task=index) from None
    if len(words) != len(task.words):
        raise ProgramError("the task does not write this register", task=index, field=", ".join(fields))
    tasks = list(program.tasks)
    tasks[index] = Task(tuple(words), task.offset)
    edited = program.replace_tasks(iter(tasks))
    if checked:
        verify(edited)
    return edited


def _names(program: Program) -> Iterator[str]:
    chip = get_chip(program.chip)
    for bank in (chip.header, chip.bank):
        for name, (_, register) in bank.by_name.items():
            yield from (f"{name}.{field.name}" for field in register.fields)


__all__ = ["ByteRange", "Patched", "changed_ranges", "edit_task", "meets", "patch_constants"]
