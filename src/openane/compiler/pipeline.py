"""The whole way from a graph to a model: verify, passes, legality, lowering, placement, emission."""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips import Chip, Limits, get_chip
from openane.compiler.lowering import Compiler
from openane.compiler.model import Entry, Model, Port, Step, Where
from openane.compiler.placement import FIRST_PORT_SLOT, SCRATCH_SLOT, Placement, bind, place
from openane.compiler.ports import INPUT, OUTPUT
from openane.errors import GraphError, ProgramError, UnsupportedError
from openane.graph import Graph, Value
from openane.ops import get_op
from openane.ops.rules import broken_rules, operands_text
from openane.passes import simplify
from openane.program import Buffer, Layout, Program, Role, Task

PORT_TYPES = ("fp16", "fp32")


def compile(graph: Graph, target: str = "h13", allow_host: bool = False) -> Model:
    """The graph as one engine program for `target`.

    Everything runs on the engine except packing of ports (element type fp32, strides), which the report lists.
    GraphError when the graph is malformed; UnsupportedError names every operation the engine cannot take.
    `allow_host` is accepted for models that need none of it.
    """
    graph.verify()
    chip = get_chip(target)
    _check_ports(graph, chip.limits)
    _check_known(graph)
    simplified = simplify(graph)
    _check_rules(simplified, chip.limits)
    compiler = Compiler(simplified, chip.limits)
    for node in simplified.nodes:
        compiler.lower(node)
    compiler.finish()
    program = _program(graph, chip, compiler)
    inputs = tuple(_port(graph, v, compiler.ports.layouts[INPUT, v.name]) for v in graph.inputs)
    outputs = tuple(_port(graph, v, compiler.ports.layouts[OUTPUT, v.name]) for v in graph.outputs)
    return Model(graph.name, target, inputs, outputs, (program,), (Step(0),),
                 _report(graph, simplified, compiler, (*inputs, *outputs)), graph)


def _check_ports(graph: Graph, limits: Limits) -> None:
    names = [v.name for v in (*graph.inputs, *graph.outputs)]
    if len(names) > limits.slots - FIRST_PORT_SLOT:
        raise UnsupportedError("ports", "every input and output needs a base-address slot",
                               limit=limits.slots - FIRST_PORT_SLOT, found=len(names))
    for name in names:
        if names.count(name) > 1:
            raise GraphError(f"two ports are called {name!r}; inputs and outputs share one set of names")
    if not graph.outputs:
        raise GraphError("the graph has no outputs")
    for value in (*graph.inputs, *graph.outputs):
        if value.dtype not in PORT_TYPES or value.type.rank > 5:
            raise UnsupportedError(f"port {value.name!r}", "inputs and outputs are fp16 or fp32 tensors of rank 0 to 5",
                                   found=value.type, remedy="cast outside the model")


def _check_known(graph: Graph) -> None:
    for node in graph.nodes:
        try:
            get_op(node.op)
        except UnsupportedError as error:
            raise UnsupportedError(node.label, error.rule, remedy=error.remedy) from None


def _check_rules(graph: Graph, limits: Limits) -> None:
    """Every violation of every node in one error."""
    broken = [(node, text) for node in graph.nodes for text in broken_rules(get_op(node.op), node, limits)]
    if not broken:
        return
    node, text = broken[0]
    more = "".join(f"\n  {other.label}: {rule}" for other, rule in broken[1:])
    raise UnsupportedError(node.label, text + (f"\nand {len(broken) - 1} more:{more}" if more else ""),
                           found=operands_text(node))


def _program(graph: Graph, chip: Chip, compiler: Compiler) -> Program:
    operations = [emitted.operation for emitted in compiler.emitted]
    labels = [e.node.label if e.node is not None else "result port" for e in compiler.emitted]
    slots = [compiler.ports.slots[str(role), value.name] for role, value in _ports(graph)]
    placement = place(operations, compiler.blocks.table, slots, chip.limits.l2_size, labels)
    placed = [bind(operation, placement.places) for operation in operations]
    try:
        emitted = chip.emit(placed)
    except ProgramError as error:
        label = labels[error.task] if error.task is not None else graph.name
        raise UnsupportedError(label, f"no register can express its lowering: {error}") from error
    return Program(chip.name, tuple(Task(task.words, task.offset) for task in emitted), bytes(compiler.constants.data),
                   _buffers(graph, compiler, placement), graph.name)


def _buffers(graph: Graph, compiler: Compiler, placement: Placement) -> tuple[Buffer, ...]:
    buffers = []
    names = {v.name for v in (*graph.inputs, *graph.outputs)}
    if placement.scratch:
        name = next(n for n in ("scratch", *(f"scratch_{i}" for i in range(len(names) + 1))) if n not in names)
        buffers.append(Buffer(name, SCRATCH_SLOT, Role.SCRATCH, placement.scratch))
    for slot, (role, value) in enumerate(_ports(graph), start=FIRST_PORT_SLOT):
        layout = compiler.ports.layouts[str(role), value.name]
        buffers.append(Buffer(value.name, slot, role, layout.size, layout))
    return tuple(buffers)


def _ports(graph: Graph) -> list[tuple[Role, Value]]:
    """Inputs and outputs in slot order: by name, as in every program of Apple's current compiler."""
    sides = [(Role.INPUT, v) for v in graph.inputs] + [(Role.OUTPUT, v) for v in graph.outputs]
    return sorted(sides, key=lambda side: side[1].name)


def _port(graph: Graph, value: Value, layout: Layout) -> Port:
    """The port; importers that narrow a model's ports to fp16 say in the metadata what they were."""
    declared = graph.metadata.get(f"dtype:{value.name}", value.dtype)
    return Port(value.name, value.shape, declared if declared in PORT_TYPES else value.dtype, layout)


def _report(source: Graph, graph: Graph, compiler: Compiler, ports: Sequence[Port]) -> tuple[Entry, ...]:
    tasks: dict[int, list[int]] = {}
    for number, emitted in enumerate(compiler.emitted):
        tasks.setdefault(id(emitted.node) if emitted.node is not None else 0, []).append(number)
    kept = {(node.op, node.name) for node in graph.nodes}
    entries = [Entry(node.label, Where.FOLDED, "computed or merged into another operation at compile time")
               for node in source.nodes if (node.op, node.name) not in kept]
    for node in graph.nodes:
        if id(node) in compiler.fused:
            entries.append(Entry(node.label, Where.FUSED, f"in the last stage of {compiler.fused[id(node)].label}"))
        elif id(node) in tasks:
            entries.append(Entry(node.label, Where.ENGINE, "", tuple(tasks[id(node)])))
        else:
            entries.append(Entry(node.label, Where.FREE, "shape and strides only"))
    if 0 in tasks:
        entries.append(Entry("result ports", Where.ENGINE, "copies to output buffers", tuple(tasks[0])))
    reads = {value.name for value in source.inputs}
    entries += [Entry(f"port {port.name!r}", Where.PORT, f"{port.dtype} rounded to fp16" if port.name in reads
                      else f"fp16 widened to {port.dtype}") for port in ports if port.converted]
    return tuple(entries)
