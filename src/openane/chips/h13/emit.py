"""H13: chains of operations to task descriptors, and descriptors between container layouts.

`macos26` is what Apple's current compiler writes: kernel-less tasks skip the stream registers, tasks start at multiples
of 0x100. `compat` is the older form that the Linux tools read: one 62-word kernel-DMA run, tasks at multiples of 0x300.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openane.chips.chip import EmittedTask, TaskFields
from openane.chips.h13.encode import encode_operation
from openane.chips.h13.neural import UNUSED_STREAM
from openane.chips.h13.registers import KERNEL_DMA
from openane.chips.h13.scratchpad import TilePlan, plan_tiles, resident_ranges
from openane.chips.h13.stream import (
    BODY_RUNS,
    EXTENDED_SLOT,
    FULL_KERNEL_DMA,
    HEADER_WORDS,
    SPLIT_KERNEL_DMA,
    decode_task,
    encode_task,
)
from openane.engine import NeuralOperation, Operation, PlanarOperation, Space, sources
from openane.engine.coefficients import CORES
from openane.errors import ProgramError
from openane.registers import Fields, Value

TASK_ALIGNMENT = {"macos26": 0x100, "compat": 0x300}
BASE_REGISTERS = ("Header.Bases.RBase0", "Header.Bases.RBase1", "Header.Bases.WBase", "Header.KernelBases.KBase0",
                  "Header.KernelBases.KBase1", "Header.KernelBases.KBase2", "Header.KernelBases.KBase3")

# Firmware log masks by position in the program; they decide nothing.
LOG_FIRST, LOG_LAST, LOG_ANY = 0x8, 0x22, 0x400
DEBUG_FIRST, DEBUG_LAST, DEBUG_ANY = 0x68, 0x6A, 0xFFF800


def emit_program(operations: Sequence[Operation], layout: str) -> tuple[EmittedTask, ...]:
    """Descriptors of `operations` in order, linked. ProgramError names the task an operation fails in."""
    _check_layout(layout)
    if not operations:
        raise ProgramError("a program needs at least one operation")
    live = resident_ranges(operations)
    bodies: list[TaskFields] = []
    before: TilePlan | None = None
    for index, operation in enumerate(operations):
        _check_chain(index, operations)
        try:
            plan = plan_tiles(index, operations, live, before)
            values = {**encode_operation(operation, plan), **_header(index, operations),
                      **_neighbours(index, operations), **_hazards(index, operation)}
        except ProgramError as error:
            raise ProgramError(f"{type(operation).__name__}: {error}", task=index) from error
        before = plan if operation.result.space is Space.CHAIN else None
        bodies.append(TaskFields(values, {}, ()))
    return _link(bodies, layout)


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
        bodies.append(replace(fields, values=values))
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


def _header(index: int, operations: Sequence[Operation]) -> Fields:
    """Rules: identity by position; memory flags equal the DMA enables; scheduling bits as in tasks whose result goes
    to memory (SPL alone otherwise); the DTID names the task that wrote coefficients read through slot 3."""
    operation = operations[index]
    to_memory = operation.result.space is Space.MEMORY
    last = index == len(operations) - 1
    fields: Fields = {
        "Header.Control.SPL": 1, "Header.Control.TSE": int(to_memory), "Header.Control.TSR": int(to_memory),
        "Header.Control.SrcLoc": int(any(a.space is Space.MEMORY for a in sources(operation))),
        "Header.Control.DstLoc": int(to_memory),
        "Header.LogEvents.Events": LOG_ANY | (LOG_FIRST if index == 0 else 0) | (LOG_LAST if last else 0),
        "Header.DebugLogEvents.Events": DEBUG_ANY | (DEBUG_LAST if last else DEBUG_FIRST if index == 0 else 0),
    }
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    if coefficients is not None and coefficients.slot == EXTENDED_SLOT:
        writer = next((i for i in range(index - 1, -1, -1) if operations[i].result.space is Space.MEMORY
                       and operations[i].result.slot == EXTENDED_SLOT), 0)
        fields |= {"Header.Control.TDE": 1, "Header.Dependency.DTID": writer}
    return fields


def _neighbours(index: int, operations: Sequence[Operation]) -> Fields:
    """Rule: consecutive planar tasks mark each other in KernelCfg."""
    if not isinstance(operations[index], PlanarOperation):
        return {}
    following, before = operations[index + 1:index + 2], operations[max(index - 1, 0):index]
    return {"NE.KernelCfg.NextPlanar": int(any(isinstance(op, PlanarOperation) for op in following)),
            "NE.KernelCfg.PreviousPlanar": int(any(isinstance(op, PlanarOperation) for op in before))}


def _hazards(index: int, operation: Operation) -> Fields:
    """Rule: the first task's L2 regions, and every streamed source's ring, may alias whatever ran before."""
    sides = [side for side, used in (("SourceCfg", index == 0 or sources(operation)[0].space is Space.MEMORY),
                                     ("ResultCfg", index == 0)) if used]
    return {f"L2.{side}.Alias{engine}{what}": 1 for side in sides for engine in ("Conv", "Planar")
            for what in ("Src", "Rslt")}


def _link(bodies: Sequence[TaskFields], layout: str) -> tuple[EmittedTask, ...]:
    """Identity, sizes and pointers of the chain, then words."""
    alignment = TASK_ALIGNMENT[layout]
    records = [_records(body.values, layout) for body in bodies]
    sizes = [_size(body.values, runs) for body, runs in zip(bodies, records, strict=True)]
    offsets = [0]
    for size in sizes:
        offsets.append(-(-(offsets[-1] + 4 * size) // alignment) * alignment)
    tasks = []
    for index, body in enumerate(bodies):
        last = index == len(bodies) - 1
        values: dict[str, Value] = dict(body.values)
        values |= {"Header.Task.TID": index, "Header.Task.LNID": int(index > 0), "Header.Task.EON": int(last),
                   "Header.Next.NextSize": 0 if last else sizes[index + 1] - 1,
                   "Header.NextPointer.Offset": 0 if last else offsets[index + 1],
                   "Header.Bases.TBaseEn": int(not last)}
        if records[index][0] == FULL_KERNEL_DMA[0]:
            for core in range(CORES):
                values.setdefault(f"KernelDMA.CoeffBfrSize[{core}].Size", UNUSED_STREAM)
        written = {a for base, count in records[index] for a in range(base, base + 4 * count, 4)}
        try:
            words = encode_task(TaskFields(_within(values, written), body.rest, records[index]))
        except ProgramError as error:
            raise ProgramError(str(error), task=index) from error
        tasks.append(EmittedTask(words, offsets[index]))
    return tuple(tasks)


def _records(values: Mapping[str, Value], layout: str) -> tuple[tuple[int, int], ...]:
    streams = any(values.get(f"KernelDMA.CoeffDMAConfig[{core}].En") for core in range(CORES))
    return (FULL_KERNEL_DMA if streams or layout == "compat" else SPLIT_KERNEL_DMA) + BODY_RUNS


def _size(values: Mapping[str, Value], records: Sequence[tuple[int, int]]) -> int:
    extended = bool(values.get("Header.Control.TDE"))
    return HEADER_WORDS + extended + sum(1 + count for _, count in records)


def _within(values: dict[str, Value], written: set[int]) -> dict[str, Value]:
    """Values without the kernel-DMA stream registers that a split run skips."""
    skipped = {f"{KERNEL_DMA.name}.{name}" for address, name, _ in KERNEL_DMA.words() if address not in written}
    return {name: value for name, value in values.items() if name.rpartition(".")[0] not in skipped}


__all__ = ["emit_program", "relayout_program"]
