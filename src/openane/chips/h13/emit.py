"""H13: chains of operations to task descriptors, and descriptors between container layouts.

`macos26` is what Apple's current compiler writes: kernel-less tasks skip the stream registers, tasks start at multiples
of 0x100. `compat` is the older form that the Linux tools read: one 62-word kernel-DMA run, tasks at multiples of 0x300.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.h13.encode import encode_operation
from openane.chips.h13.flow import Flow, flows
from openane.chips.h13.neural import IDLE_STREAMS, STREAM_FIELDS
from openane.chips.h13.registers import KERNEL_DMA
from openane.chips.h13.schedule import (
    hazard_fields,
    header_fields,
    hint_fields,
    scratch_writers,
    stated_fields,
    view_fields,
)
from openane.chips.h13.scratchpad import Range, TilePlan, plan_tiles, resident_ranges
from openane.chips.h13.stream import (
    BODY_RUNS,
    FULL_KERNEL_DMA,
    HEADER_WORDS,
    SPLIT_KERNEL_DMA,
    decode_task,
    encode_task,
)
from openane.engine import Operation, Space, sources
from openane.errors import ProgramError
from openane.registers import Fields, Value

TASK_ALIGNMENT = {"macos26": 0x100, "compat": 0x300}
BASE_REGISTERS = ("Header.Bases.RBase0", "Header.Bases.RBase1", "Header.Bases.WBase", "Header.KernelBases.KBase0",
                  "Header.KernelBases.KBase1", "Header.KernelBases.KBase2", "Header.KernelBases.KBase3")

def emit_program(operations: Sequence[Operation], layout: str) -> tuple[EmittedTask, ...]:
    """Descriptors of `operations` in order, linked. ProgramError names the task an operation fails in."""
    _check_layout(layout)
    if not operations:
        raise ProgramError("a program needs at least one operation")
    plans = _plans(operations)
    return _link(((_fields(index, operations, flow, plans), {}) for index, flow in enumerate(plans.flows)), layout)


@dataclass(frozen=True, slots=True)
class _Plans:
    """Relations and tiles of every task; `writers`: see scratch_writers."""

    flows: list[Flow]
    tiles: list[TilePlan]
    writers: list[tuple[int, Range]]


def _plans(operations: Sequence[Operation]) -> _Plans:
    for index in range(len(operations)):
        _check_chain(index, operations)
    related, live = flows(operations), resident_ranges(operations)
    tiles: list[TilePlan] = []
    for index, operation in enumerate(operations):
        before = tiles[-1] if index and operations[index - 1].result.space is Space.CHAIN else None
        try:
            tiles.append(plan_tiles(index, operations, live, before, related[index]))
        except ProgramError as error:
            raise _named(index, operation, error) from error
    return _Plans(related, tiles, scratch_writers(operations))


def _fields(index: int, operations: Sequence[Operation], flow: Flow, plans: _Plans) -> Fields:
    """All fields of a task but its links."""
    operation = operations[index]
    after = plans.flows[index + 1] if index + 1 < len(operations) else None
    followed = plans.tiles[index + 1].patch if after is not None and after.pipelined else None
    try:
        fields = encode_operation(operation, plans.tiles[index], followed, flow.surface)
        for more in (hint_fields(operation, flow), stated_fields(operation, flow), view_fields(flow),
                     header_fields(index, operations, flow, plans.writers),
                     hazard_fields(index, operations, flow, plans.tiles)):
            fields |= more
    except ProgramError as error:
        raise _named(index, operation, error) from error
    return fields


def _named(index: int, operation: Operation, error: ProgramError) -> ProgramError:
    """The error of a task, naming it and its operation."""
    return ProgramError(f"{type(operation).__name__}: {error}", task=index)


def relayout_program(tasks: Sequence[Sequence[int]], layout: str, slots: Mapping[int, int]) -> tuple[EmittedTask, ...]:
    """The same tasks in another layout with base-address slots renumbered (`slots`: old to new)."""
    _check_layout(layout)
    bodies = []
    for words in tasks:
        fields = decode_task(words)
        values = dict(fields.values)
        for name in BASE_REGISTERS:
            if values.get(f"{name}En"):
                old = int(values[name])
                values[name] = slots.get(old, old)
        bodies.append((values, fields.rest))
    return _link(bodies, layout)


def _check_layout(layout: str) -> None:
    if layout not in TASK_ALIGNMENT:
        raise ProgramError(f"layout must be one of {', '.join(TASK_ALIGNMENT)}, not {layout!r}")


def _check_chain(index: int, operations: Sequence[Operation]) -> None:
    """A chained source is the result of the operation just before, of the same size."""
    reads = [a for a in sources(operations[index]) if a.space is Space.CHAIN]
    before = operations[index - 1].result if index else None
    if reads and (before is None or before.space is not Space.CHAIN or before.elements != reads[0].elements):
        raise ProgramError("a chained operand must be the result of the task before", task=index)
    if operations[index].result.space is Space.CHAIN:
        after = operations[index + 1] if index + 1 < len(operations) else None
        if after is None or sources(after)[0].space is not Space.CHAIN:
            raise ProgramError("a chained result must be the first operand of the next task", task=index)


def _link(bodies: Iterable[tuple[Fields, Mapping[str, int]]], layout: str) -> tuple[EmittedTask, ...]:
    """Identity, sizes and pointers of the chain, then words. `bodies` are values and rest; what is missing is filled
    in."""
    alignment = TASK_ALIGNMENT[layout]
    waiting = (_measured(values, rest, layout) for values, rest in bodies)
    tasks: list[EmittedTask] = []
    offset, here = 0, next(waiting, None)
    while here is not None:
        index, after = len(tasks), next(waiting, None)
        following = -(-(offset + 4 * here.words) // alignment) * alignment
        here.values.update({
            "Header.Task.TID": index, "Header.Task.LNID": int(index > 0), "Header.Task.EON": int(after is None),
            "Header.Next.NextSize": 0 if after is None else after.words - 1,
            "Header.NextPointer.Offset": 0 if after is None else following,
            "Header.Bases.TBaseEn": int(after is not None)})
        try:
            tasks.append(EmittedTask(encode_task(TaskFields(here.values, here.rest, here.records)), offset))
        except ProgramError as error:
            raise ProgramError(str(error), task=index) from error
        offset, here = following, after
    return tuple(tasks)


@dataclass(frozen=True, slots=True)
class _Measured:
    """A task's fields with its runs, and how many words these are."""

    values: Fields
    rest: Mapping[str, int]
    records: tuple[tuple[int, int], ...]
    words: int


def _measured(values: Fields, rest: Mapping[str, int], layout: str) -> _Measured:
    records = _records(values, layout)
    values = IDLE_STREAMS | values if records[0] == FULL_KERNEL_DMA[0] else values
    for name in values.keys() & _skipped(records):
        del values[name]
    return _Measured(values, rest, records, _size(values, records))


def _records(values: Mapping[str, Value], layout: str) -> tuple[tuple[int, int], ...]:
    streams = any(values.get(enable) for enable, _, _ in STREAM_FIELDS)
    return (FULL_KERNEL_DMA if streams or layout == "compat" else SPLIT_KERNEL_DMA) + BODY_RUNS


def _size(values: Mapping[str, Value], records: Sequence[tuple[int, int]]) -> int:
    extended = bool(values.get("Header.Control.TDE"))
    return HEADER_WORDS + extended + sum(1 + count for _, count in records)


@cache
def _skipped(records: tuple[tuple[int, int], ...]) -> frozenset[str]:
    """The fields of the kernel-DMA stream registers that no run of `records` writes, as a split run skips them."""
    written = {a for base, count in records for a in range(base, base + 4 * count, 4)}
    return frozenset(f"{KERNEL_DMA.name}.{name}.{field.name}" for address, name, register in KERNEL_DMA.words()
                     if address not in written for field in register.fields)


__all__ = ["emit_program", "relayout_program"]
