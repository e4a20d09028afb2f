"""H13: chains of operations to task descriptors, and descriptors between container layouts.

`macos26` is what Apple's current compiler writes: kernel-less tasks skip the stream registers, tasks start at multiples
of 0x100. `compat` is the older form that the Linux tools read: one 62-word kernel-DMA run, tasks at multiples of 0x300.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.emit.operation import address_names, addresses, encode_operation
from openane.chips.emit.flow import Flow, flows
from openane.chips.emit.neural import IDLE_STREAMS, STREAM_FIELDS
from openane.chips.h13.registers import KERNEL_DMA
from openane.chips.emit.repeats import forms, task_key
from openane.chips.emit.schedule import (
    coefficient_writers,
    dependency_names,
    hazard_fields,
    header_fields,
    hint_fields,
    stated_fields,
    view_fields,
)
from openane.chips.emit.rings import Planner, TilePlan
from openane.chips.h13.stream import (
    BODY_RUNS,
    FORMAT,
    FULL_KERNEL_DMA,
    HEADER_WORDS,
    SPLIT_KERNEL_DMA,
    decode_task,
    encode_task,
)
from openane.chips.stream import Places
from openane.engine import Operation, Space, sources
from openane.errors import ProgramError
from openane.registers import Fields, Value

TASK_ALIGNMENT = {"macos26": 0x100, "compat": 0x300}
BASE_REGISTERS = ("Header.Bases.RBase0", "Header.Bases.RBase1", "Header.Bases.WBase", "Header.KernelBases.KBase0",
                  "Header.KernelBases.KBase1", "Header.KernelBases.KBase2", "Header.KernelBases.KBase3")
LINKS = ("Header.Task.TID", "Header.Task.LNID", "Header.Task.EON", "Header.Next.NextSize", "Header.NextPointer.Offset",
         "Header.Bases.TBaseEn")
"""What a task says of its place in the chain."""


def emit_program(operations: Sequence[Operation], layout: str) -> tuple[EmittedTask, ...]:
    """Descriptors of `operations` in order, linked. ProgramError names the task an operation fails in."""
    _check_layout(layout)
    if not operations:
        raise ProgramError("a program needs at least one operation")
    emission = _Emission(operations, layout)
    return _link((emission.body(index) for index in range(len(operations))), layout)


class _Emission:
    """The tasks of one program. Those alike but for their addresses are encoded once."""

    def __init__(self, operations: Sequence[Operation], layout: str) -> None:
        for index in range(len(operations)):
            _check_chain(index, operations)
        self._operations, self._layout = operations, layout
        self._flows = flows(operations)
        self._forms = forms(operations)
        self._tiles = _tiles(operations, self._forms, self._flows)
        self._writers = coefficient_writers(operations)
        self._known: dict[Hashable, _Measured] = {}

    def body(self, index: int) -> _Body:
        """A task without its links."""
        operation, flow, plan = self._operations[index], self._flows[index], self._tiles[index]
        last = index == len(self._operations) - 1
        followed = self._tiles[index + 1].patch if not last and self._flows[index + 1].pipelined else None
        try:
            hazards = hazard_fields(index, self._operations, flow, self._tiles)
            key = task_key(self._forms[index], plan, followed, flow), tuple(hazards.items()), index == 0, last
            if key not in self._known:
                fields = encode_operation(operation, plan, followed, flow.surface)
                for more in (hint_fields(operation, flow), stated_fields(operation, flow), view_fields(flow),
                             header_fields(operation, flow, index == 0, last), hazards):
                    fields |= more
                names = (*address_names(operation, plan), *dependency_names(operation))
                self._known[key] = _measured(fields, {}, self._layout, names)
        except ProgramError as error:
            raise _named(index, operation, error) from error
        return _Body(self._known[key], (*addresses(operation, plan), *self._writers[index]))


def _tiles(operations: Sequence[Operation], alike: Sequence[int], related: Sequence[Flow]) -> list[TilePlan]:
    planner = Planner(operations, alike)
    tiles: list[TilePlan] = []
    for index, operation in enumerate(operations):
        before = tiles[-1] if index and operations[index - 1].result.space is Space.CHAIN else None
        try:
            tiles.append(planner.plan(index, before, related[index]))
        except ProgramError as error:
            raise _named(index, operation, error) from error
    return tiles


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
        for name in LINKS:
            values.pop(name, None)
        bodies.append(_Body(_measured(values, fields.rest, layout), ()))
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


@dataclass(slots=True)
class _Measured:
    """A task's fields but for the whole numbers `names`, links last; how many words these are; and once they are asked
    for, the words without the numbers, where the fields alone give them, and where the numbers go."""

    fields: TaskFields
    names: tuple[str, ...]
    words: int
    draft: Mapping[int, int] | None = None
    places: Places = ()

    def completed(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """The words of the task with `numbers` as well."""
        if self.draft is None:
            self.draft = FORMAT.draft(self.fields) or {}
            self.places = FORMAT.places(self.draft, self.names) if self.draft else ()
        if self.draft:
            return FORMAT.completed(self.draft, self.places, numbers)
        values = {**self.fields.values, **dict(zip(self.names, numbers, strict=True))}
        return encode_task(TaskFields(values, self.fields.rest, self.fields.records))


@dataclass(frozen=True, slots=True)
class _Body:
    """A task without its links: what it has in common with tasks alike, and its own addresses."""

    common: _Measured
    places: tuple[int, ...]


def _link(bodies: Iterable[_Body], layout: str) -> tuple[EmittedTask, ...]:
    """Identity, sizes and pointers of the chain, then words."""
    alignment = TASK_ALIGNMENT[layout]
    tasks: list[EmittedTask] = []
    waiting = iter(bodies)
    offset, here = 0, next(waiting, None)
    while here is not None:
        index, after = len(tasks), next(waiting, None)
        following = -(-(offset + 4 * here.common.words) // alignment) * alignment
        links = (index, int(index > 0), int(after is None), 0 if after is None else after.common.words - 1,
                 0 if after is None else following, int(after is not None))
        try:
            words = here.common.completed((*here.places, *links))
        except ProgramError as error:
            raise ProgramError(str(error), task=index) from error
        tasks.append(EmittedTask(words, offset))
        offset, here = following, after
    return tuple(tasks)


def _measured(values: Fields, rest: Mapping[str, int], layout: str, names: tuple[str, ...] = ()) -> _Measured:
    records = _records(values, layout)
    values = IDLE_STREAMS | values if records[0] == FULL_KERNEL_DMA[0] else values
    for name in values.keys() & _skipped(records):
        del values[name]
    return _Measured(TaskFields(values, rest, records), names + LINKS, _size(values, records))


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
