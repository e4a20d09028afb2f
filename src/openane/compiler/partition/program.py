"""One engine program from one piece of a model: lowering, placement, emission."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from openane.chips import Chip
from openane.chips.limits import BaseSlots
from openane.compiler.buffers.storage import Block
from openane.compiler.inspect.dump import Watch, watch_storage
from openane.compiler.lower.builder import Compiler
from openane.compiler.partition.capacity import Capacity, FullError, check_ports, check_size, cut, storable
from openane.compiler.partition.host_steps import piece
from openane.compiler.schedule.pipeline import Stored, store
from openane.engine import Operation
from openane.errors import UnsupportedError
from openane.graph import Graph, Value, copy_of
from openane.program import Buffer, Layout, Program, Role, Task


@dataclass(frozen=True, slots=True)
class Lowered:
    """What a piece was lowered to, constants apart, and the program this became. The same again becomes the same."""

    operations: tuple[Operation, ...]
    blocks: Mapping[int, Block]
    program: Program
    origins: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A program, the piece of the model it computes, and for each task the number of the lowered operation it comes
    from."""

    program: Program
    graph: Graph
    compiler: Compiler
    origins: Sequence[int]

    def layouts(self) -> Mapping[str, Layout]:
        """Surfaces of the program's ports by name."""
        return {name: layout for (_, name), layout in self.compiler.ports.layouts.items()}

    def lowered(self) -> Lowered:
        """What the piece was lowered to."""
        return Lowered(tuple(e.operation for e in self.compiler.emitted), self.compiler.blocks.table, self.program,
                       tuple(self.origins))


@dataclass(frozen=True, slots=True)
class Context:
    """What all programs of a model have in common. Ports called as `shared` says keep their tensor's own shape;
    programs of `before` are taken again for pieces that are lowered to the same operations."""

    chip: Chip
    capacity: Capacity
    name: str
    watch: Watch
    shared: frozenset[str] = frozenset()
    before: Sequence[Lowered] = ()


def segments(graph: Graph, shared: frozenset[str], context: Context) -> list[Segment]:
    """The graph as engine programs that run in order, as few as hold it. `shared` are names of ports that other
    programs know too. UnsupportedError when an operation does not fit on its own, or cannot be lowered."""
    waiting, done = [(graph, shared)], []
    while waiting:
        whole, known = waiting.pop()
        try:
            done.append(segment(whole, known, context))
        except FullError as full:
            place = cut(whole, context.capacity)
            if place is None and len(whole.nodes) == 1:
                raise full.about(whole.nodes[0].label) from None
            if place is None:
                raise
            whole = computed_outputs(whole)
            first, second = piece(whole, whole.nodes[:place]), piece(whole, whole.nodes[place:])
            known |= _names(first) & _names(second)
            waiting += [(second, known), (first, known)]
    return done


def segment(graph: Graph, shared: frozenset[str], context: Context) -> Segment:
    """The graph as one program. FullError when one cannot hold it."""
    check_ports(graph, context.capacity)
    _check_storable(graph)
    compiler = Compiler(graph, context.chip.limits, shared)
    for node in graph.nodes:
        compiler.lower(node)
    compiler.finish()
    constants = compiler.constants.taken()
    size = len(constants) + sum(layout.size for layout in compiler.ports.layouts.values())
    check_size(len(compiler.emitted), size, context.capacity)
    for known in context.before:
        if [e.operation for e in compiler.emitted] == [*known.operations] and known.blocks == compiler.blocks.table \
                and len(known.program.constants) == len(constants):
            return Segment(replace(known.program, constants=constants), graph, compiler, known.origins)
    return _stored(graph, compiler, constants, size, context)


def _stored(graph: Graph, compiler: Compiler, constants: bytes, size: int, context: Context) -> Segment:
    """The lowered operations as a program; `size` is its memory, scratch and tasks apart."""
    operations = [emitted.operation for emitted in compiler.emitted]
    labels = [e.node.label if e.node is not None else "result port" for e in compiler.emitted]
    slots = [compiler.ports.slots[str(role), value.name] for role, value in _ports(graph)]
    stored = store(context.chip, operations, compiler.blocks.table, slots, labels, graph.name)
    end = stored.tasks[-1].offset + 4 * len(stored.tasks[-1].words)
    check_size(len(stored.tasks), size + stored.placement.scratch + end, context.capacity)
    watch_storage(context.watch, context.chip, operations, compiler.blocks.table, labels, stored)
    tasks = tuple(Task(task.words, task.offset) for task in stored.tasks)
    program = Program(context.chip.name, tasks, constants, _buffers(graph, compiler, stored, context.chip.limits.slots),
                      context.name)
    return Segment(program, graph, compiler, stored.origins)


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


def _buffers(graph: Graph, compiler: Compiler, stored: Stored, slots: BaseSlots) -> tuple[Buffer, ...]:
    buffers = []
    names = {v.name for v in (*graph.inputs, *graph.outputs)}
    if stored.placement.scratch:
        name = next(n for n in ("scratch", *(f"scratch_{i}" for i in range(len(names) + 1))) if n not in names)
        buffers.append(Buffer(name, slots.scratch, Role.SCRATCH, stored.placement.scratch))
    for slot, (role, value) in enumerate(_ports(graph), start=slots.first_port):
        layout = compiler.ports.layouts[str(role), value.name]
        buffers.append(Buffer(value.name, slot, role, layout.size, layout))
    return tuple(buffers)


def _ports(graph: Graph) -> list[tuple[Role, Value]]:
    """Inputs and outputs in slot order: by name, as in every program of Apple's current compiler."""
    sides = [(Role.INPUT, v) for v in graph.inputs] + [(Role.OUTPUT, v) for v in graph.outputs]
    return sorted(sides, key=lambda side: side[1].name)
