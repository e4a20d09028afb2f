"""What happened on the way from graph to tasks, as text: what a compiler's debug mask shows, readable."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from openane.chips import Chip
from openane.compiler.buffers.storage import FIRST_VIRTUAL_SLOT, BufferKind, VirtualBuffer
from openane.compiler.buffers.uses import operands
from openane.compiler.partition.events import Event, PassesBegin, ProgramStored
from openane.compiler.records import Watch
from openane.compiler.schedule.pipeline import ScheduledOperations
from openane.compiler.schedule.placement import lifetimes
from openane.engine import NeuralOperation, Operation, Space, Streams, describe
from openane.graph import Graph
from openane.graph.mil import print_mil

PLACES = {Space.MEMORY: "memory", Space.L2: "L2", Space.CHAIN: "handed over"}


def graph_text(graph: Graph) -> str:
    """The graph as MIL text; large constants stand as references to a weight file."""
    return print_mil(graph)[0]


class Dump:
    """Turns events into texts, and gives each to a watch."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._passes = watch, 0

    def __call__(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, ProgramStored):
            self._show(event)
            return
        name = "source"
        self._passes += 1
        if isinstance(event, PassesBegin):
            self._passes = 0
        else:
            name = event.name.replace("_", "-")
        self._watch(f"{self._passes:02}-{name}.mil", graph_text(event.graph))

    def _show(self, event: ProgramStored) -> None:
        """Lowered operations, what became resident, the memory map, L2 rings and coefficients."""
        stored, labels = event.stored, [emitted.label for emitted in event.lowered.emitted]
        self._watch("30-lowered.txt", _operations(event.lowered.operations, event.lowered.blocks, labels))
        labels = [labels[number] for number in stored.origins]
        self._watch("31-resident.txt", _operations(stored.virtual, stored.blocks, labels))
        self._watch("32-placement.txt", "\n".join(_placement(stored, event.chip.limits.slots.scratch)) + "\n")
        self._watch("33-tiling.txt", "\n".join(_tiling(event.chip, stored, labels)) + "\n")
        self._watch("34-weights.txt", "\n".join(_weights(stored, labels)) + "\n")


def _operations(operations: Sequence[Operation], blocks: Mapping[int, VirtualBuffer], labels: Sequence[str]) -> str:
    lines = ["# engine operations over virtual buffers, and the model operation each comes from"]
    for number, (operation, label) in enumerate(zip(operations, labels, strict=True)):
        text = describe(operation)
        for slot in {a.slot for _, access in operands(operation) for a in (access, access.copy) if a is not None}:
            if slot in blocks:
                text = re.sub(rf"(slot|L2 block ){slot}\+", f"{_name(slot, blocks[slot])}+", text)
        lines.append(f"{number:4}  {text}    # {label}")
    return "\n".join(lines) + "\n"


def _name(slot: int, block: VirtualBuffer) -> str:
    """A port by its name, anything else by its number: `port x`, `scratch 3`, `L2 4`."""
    if block.kind is BufferKind.PORT:
        return f"port {block.name}"
    return f"{'L2' if block.kind is BufferKind.L2 else 'scratch'} {slot - FIRST_VIRTUAL_SLOT}"


def _placement(stored: ScheduledOperations, scratch: int) -> Iterator[str]:
    yield "# buffer            where            bytes      operations"
    lives = lifetimes(stored.virtual)
    for slot, (first, last) in sorted(lives.items(), key=lambda item: (_order(stored, item[0]), item[0])):
        block = stored.blocks[slot]
        place, offset = stored.placement.places[slot]
        where = f"L2+{offset:#x}" if block.kind is BufferKind.L2 else f"slot{place}+{offset:#x}"
        yield f"{_name(slot, block):18}  {where:16} {block.size:9}  {first}..{last}"
    yield f"scratch memory (slot {scratch}): {stored.placement.scratch} bytes"
    yield f"L2 at its fullest, rings apart: {stored.placement.l2} bytes"


def _order(stored: ScheduledOperations, slot: int) -> tuple[int, int]:
    kinds = (BufferKind.PORT, BufferKind.SCRATCH, BufferKind.L2)
    return kinds.index(stored.blocks[slot].kind), stored.placement.places[slot][1]


def _tiling(chip: Chip, stored: ScheduledOperations, labels: Sequence[str]) -> Iterator[str]:
    yield "# task  operation, extents of each operand (N, C, D, H, W), and the L2 bytes it is streamed through"
    for number, (task, operation) in enumerate(zip(stored.tasks, stored.operations, strict=True)):
        rings = {p.operand: f"ring {p.low:#x}..{p.high:#x}" for p in chip.passages(chip.decode(task.words))}
        sides = (f"{role} {'x'.join(map(str, access.shape))} "
                 f"{rings.get('first' if role == 'source' else role) or PLACES[access.space]}"
                 for role, access in operands(operation))
        yield f"{number:4}  {type(operation).__name__} of {labels[number]}: {'; '.join(sides)}"


def _weights(stored: ScheduledOperations, labels: Sequence[str]) -> Iterator[str]:
    yield "# task  coefficients: where each core's stream lies and how it is packed"
    for number, operation in enumerate(stored.operations):
        if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
            yield f"{number:4}  {operation.coefficients}    # {labels[number]}"
            for section in operation.coefficients.sections:
                yield from _streams(section.streams)


def _streams(streams: Streams) -> Iterator[str]:
    steps = {after.offset - before.offset for before, after in pairwise(streams)}
    if len(steps) <= 1 and len({stream.size for stream in streams}) == 1:
        yield (f"        cores {streams[0].core}..{streams[-1].core}: {streams[0].size} bytes each, "
               f"{next(iter(steps), 0):#x} apart from {streams[0].offset:#x}")
    else:
        yield from (f"        core {s.core}: {s.size} bytes at {s.offset:#x}" for s in streams)
