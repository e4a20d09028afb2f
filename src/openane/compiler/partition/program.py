"""One engine program from one piece of a model: lowering, placement, emission."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from openane.chips import Chip
from openane.chips.emit.exponents import Contents, table_kinds
from openane.chips.limits import BaseSlots
from openane.compiler.lower.builder import lower
from openane.compiler.lower.lowered import Lowered
from openane.compiler.partition.capacity import Capacity, FullError, check_ports, check_size, cut, storable
from openane.compiler.partition.events import ProgramStored, Tell
from openane.compiler.partition.host_steps import piece
from openane.compiler.records import KnownProgram
from openane.compiler.schedule.pipeline import ScheduledOperations, store
from openane.compiler.schedule.remembered import Schedulable, remembered
from openane.errors import UnsupportedError
from openane.graph import Graph, Value, copy_of
from openane.ops.optimisation import level_of
from openane.program import Buffer, Program, Role, Task
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class CompiledPiece:
    """A piece of the model as an engine program: what it was lowered to, and for each task the number of the lowered
    operation it comes from."""

    program: Program
    lowered: Lowered
    origins: tuple[int, ...]

    def known(self) -> KnownProgram:
        """What is needed to take the program again."""
        return KnownProgram(self.lowered.operations, self.lowered.blocks, self.program, self.origins)


@dataclass(frozen=True, slots=True)
class CompileSettings:
    """What all programs of a model have in common. Ports called as `shared` says keep their tensor's own shape; `tell`
    hears what happens; programs of `known` are taken again for pieces that are lowered to the same operations."""

    chip: Chip
    capacity: Capacity
    name: str
    shared: frozenset[str] = frozenset()
    tell: Tell | None = None
    known: Sequence[KnownProgram] = ()


def compile_pieces(graph: Graph, shared: frozenset[str], settings: CompileSettings) -> list[CompiledPiece]:
    """The graph as engine programs that run in order, as few as hold it. `shared` are names of ports that other
    programs know too. UnsupportedError when an operation does not fit on its own, or cannot be lowered."""
    waiting, done = [(graph, shared)], []
    while waiting:
        whole, names = waiting.pop()
        try:
            done.append(compile_piece(whole, names, settings))
        except FullError as full:
            place = cut(whole, settings.capacity)
            if place is None and len(whole.nodes) == 1:
                raise full.about(whole.nodes[0].label) from None
            if place is None:
                raise
            whole = computed_outputs(whole)
            first, second = piece(whole, whole.nodes[:place]), piece(whole, whole.nodes[place:])
            names |= _names(first) & _names(second)
            waiting += [(second, names), (first, names)]
    return done


def compile_piece(graph: Graph, shared: frozenset[str], settings: CompileSettings) -> CompiledPiece:
    """The graph as one program. FullError when one cannot hold it."""
    check_ports(graph, settings.capacity)
    _check_storable(graph)
    lowered = lower(graph, settings.chip, shared)
    size = len(lowered.constants) + sum(layout.size for layout in lowered.layouts.values())
    check_size(len(lowered.emitted), size, settings.capacity)
    for known in settings.known:
        if known.operations == lowered.operations and known.blocks == lowered.blocks \
                and _same_places(lowered, known, settings.chip):
            return CompiledPiece(replace(known.program, constants=lowered.constants), lowered, known.origins)
    return _stored(lowered, size, settings)


def _stored(lowered: Lowered, size: int, settings: CompileSettings) -> CompiledPiece:
    """The lowered operations as a program; `size` is its memory, scratch and tasks apart."""
    stored = _scheduled(lowered, settings.chip)
    end = stored.tasks[-1].offset + 4 * len(stored.tasks[-1].words)
    check_size(len(stored.tasks), size + stored.placement.scratch + end, settings.capacity)
    if settings.tell is not None:
        settings.tell(ProgramStored(settings.chip, lowered, stored))
    tasks = tuple(Task(task.words, task.offset) for task in stored.tasks)
    buffers = _buffers(lowered, stored, settings.chip.limits.slots)
    program = Program(settings.chip.name, tasks, lowered.constants, buffers, settings.name,
                      kernel_starts=lowered.kernel_starts)
    return CompiledPiece(program, lowered, stored.origins)


def _scheduled(lowered: Lowered, chip: Chip) -> ScheduledOperations:
    """The tasks of the lowered operations, which the same operations before became too."""
    slots = tuple(lowered.slots[value.name] for _, value in _ports(lowered.graph))
    operations, level = lowered.operations, level_of(lowered.graph)
    contents = _contents(lowered, lowered.constants, chip.limits.slots)
    wanted = Schedulable(chip, level, slots, tuple(table_kinds(operations, contents)), operations, lowered.blocks)
    known = remembered().get(wanted)
    if known is None:
        labels = [emitted.label for emitted in lowered.emitted]
        known = store(chip, operations, lowered.blocks, slots, labels, contents, level)
        remembered().add(wanted, known)
    return known


def _contents(lowered: Lowered, constants: bytes | memoryview, slots: BaseSlots) -> Contents:
    """The constants of a program behind the slots that tasks name them by."""
    ports = range(slots.first_port, slots.first_port + len(_ports(lowered.graph)))
    first, starts = slots.first_kernels(ports), (*lowered.kernel_starts, len(constants))
    whole = memoryview(constants)
    kernels = {} if first is None else {first + i: whole[low:high] for i, (low, high) in enumerate(pairwise(starts))}
    return {slots.constants: whole[:starts[0]], **kernels}


def _same_places(lowered: Lowered, known: KnownProgram, chip: Chip) -> bool:
    """Whether the constants of a known program of the same operations lie as these do, with tables of the same kinds,
    which tasks say something of."""
    if len(known.program.constants) != len(lowered.constants) or known.program.kernel_starts != lowered.kernel_starts:
        return False
    before, after = (table_kinds(lowered.operations, _contents(lowered, constants, chip.limits.slots))
                     for constants in (known.program.constants, lowered.constants))
    return before == after


def _names(graph: Graph) -> frozenset[str]:
    return frozenset(value.name for value in (*graph.inputs, *graph.outputs))


def computed_outputs(graph: Graph) -> Graph:
    """The graph with an operation behind every output that is a constant."""
    made = {id(value) for node in graph.nodes for value in node.outputs}
    outputs, copies = [], []
    for value in graph.outputs:
        if value.constant and id(value) not in made:
            copies.append(copy_of(value, Value(value.name, value.type)))
            value = copies[-1].output
        outputs.append(value)
    return Graph(graph.inputs, (*graph.nodes, *copies), tuple(outputs), graph.name, graph.metadata)


def _check_storable(graph: Graph) -> None:
    """UnsupportedError naming the operation that reads or makes what no port can hold."""
    odd = {id(value): value for value in (*graph.inputs, *graph.outputs) if not storable(value)}
    for node in graph.nodes:
        for value in (*node.values(), *node.outputs):
            if id(value) in odd:
                raise UnsupportedError(node.label, f"{value.name!r} passes between engine and host, which exchange "
                                       "tensors of rank 0 to 5 of at most 32 bits", found=value.type)


def _buffers(lowered: Lowered, stored: ScheduledOperations, slots: BaseSlots) -> tuple[Buffer, ...]:
    buffers = []
    names = _names(lowered.graph)
    if stored.placement.scratch:
        name = next(n for n in ("scratch", *(f"scratch_{i}" for i in range(len(names) + 1))) if n not in names)
        buffers.append(Buffer(name, slots.scratch, Role.SCRATCH, stored.placement.scratch))
    for slot, (role, value) in enumerate(_ports(lowered.graph), start=slots.first_port):
        layout = lowered.layouts[value.name]
        buffers.append(Buffer(value.name, slot, role, layout.size, layout))
    return tuple(buffers)


def _ports(graph: Graph) -> list[tuple[Role, Value]]:
    """Inputs and outputs in slot order: by name, as in every program of Apple's current compiler."""
    sides = [(Role.INPUT, v) for v in graph.inputs] + [(Role.OUTPUT, v) for v in graph.outputs]
    return sorted(sides, key=lambda side: side[1].name)
