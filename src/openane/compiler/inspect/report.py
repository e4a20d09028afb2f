"""What became of every operation of the model: the report of a compilation."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from openane.compiler.partition.planning import PartitionPlan
from openane.compiler.records import Entry, Port, Where
from openane.graph import Graph, Node
from openane.ops import get_op

Places = Mapping[int, Mapping[int, Sequence[int]]]
"""By id(node), then number of the engine program: its tasks."""
RESULT_PORTS = 0
"""In place of a node: tasks that move results to their ports."""


class _Found:
    """Where a plan's nodes went, by id(node): their tasks, their engine program, the node that does their work."""

    def __init__(self, made: PartitionPlan) -> None:
        self.places = _places(made)
        self._hosted = made.hosted
        self._homes = {id(node): number for number, piece in enumerate(made.pieces)
                       for node in piece.lowered.graph.nodes}
        self._lowered = {id(emitted.node) for piece in made.pieces for emitted in piece.lowered.emitted}
        self._fused = {key: node for piece in made.pieces for key, node in piece.lowered.fused.items()}

    def entries(self, node: Node) -> list[Entry]:
        """What is said of one node."""
        key = id(node)
        if key in self._hosted:
            return [Entry(node.label, Where.HOST, self._hosted[key])]
        if key in self._fused:
            return [Entry(node.label, Where.FUSED, f"in the last stage of {self._fused[key].label}",
                          program=self._homes.get(key, 0))]
        if key in self.places:
            return list(_on_engine(node.label, "", self.places[key]))
        return [Entry(node.label, Where.FREE, "done by its neighbours as they write" if key in self._lowered
                      else "shape and strides only", program=self._homes.get(key, 0))]


def report(source: Graph, made: PartitionPlan, ports: Sequence[Port]) -> tuple[Entry, ...]:
    """One entry for each operation of `source`, of which `made.graph` is the simplified form, and for each converted
    port; an operation that runs in several engine programs has one for each."""
    found = _Found(made)
    kept = {(node.op, node.name) for node in made.graph.nodes}
    gone = [node for node in source.nodes if (node.op, node.name) not in kept]
    whole = tuple(dict.fromkeys(node.label for node in gone if get_op(node.op).apart(node) is not None))
    entries = [Entry(node.label, Where.FOLDED, "computed or merged into another operation at compile time")
               for node in gone if node.label not in whole]
    for label in whole:
        entries += _decomposed(label, made, found.places)
    for node in made.graph.nodes:
        if id(node) in made.hosted or node.source not in whole:
            entries += found.entries(node)
    entries += _on_engine("result ports", "copies to output buffers", found.places.get(RESULT_PORTS, {}))
    return (*entries, *_converted(_on_programs(ports, made), {value.name for value in source.inputs}))


def _on_programs(ports: Sequence[Port], made: PartitionPlan) -> list[Port]:
    """The ports that some engine program reads or writes; the host alone takes others as they are."""
    known = {name for piece in made.pieces for name in piece.lowered.layouts}
    return [port for port in ports if port.name in known]


def _converted(ports: Sequence[Port], reads: Container[str]) -> Iterator[Entry]:
    """What becomes of ports on their way; the graph's inputs are called as `reads` says."""
    for port in ports:
        if port.converted:
            yield Entry(f"port {port.name!r}", Where.PORT, _conversion(port, port.name in reads))


def _places(made: PartitionPlan) -> Places:
    table: dict[int, dict[int, list[int]]] = {}
    for number, piece in enumerate(made.pieces):
        for task, origin in enumerate(piece.origins):
            node = piece.lowered.emitted[origin].node
            key = id(node) if node is not None else RESULT_PORTS
            table.setdefault(key, {}).setdefault(number, []).append(task)
    return table


def _on_engine(label: str, reason: str, tasks: Mapping[int, Sequence[int]]) -> Iterator[Entry]:
    for program, numbers in sorted(tasks.items()):
        yield Entry(label, Where.ENGINE, reason, tuple(numbers), program)


def _decomposed(label: str, made: PartitionPlan, places: Places) -> Iterator[Entry]:
    """Entries of an operation that runs as others: all their tasks."""
    parts = [node for node in made.graph.nodes if node.source == label]
    if not parts:
        yield Entry(label, Where.FOLDED, "computed or merged into another operation at compile time")
        return
    tasks: dict[int, list[int]] = {}
    for node in parts:
        for program, numbers in places.get(id(node), {}).items():
            tasks.setdefault(program, []).extend(numbers)
    reason = f"as {', '.join(sorted({n.op for n in parts}))}"
    if tasks:
        yield from _on_engine(label, reason, {program: sorted(numbers) for program, numbers in tasks.items()})
    elif not all(id(node) in made.hosted for node in parts):
        yield Entry(label, Where.FREE, reason)


def _conversion(port: Port, read: bool) -> str:
    """What the host does to a port's elements."""
    if port.dtype != "fp32":
        return f"{port.dtype} stored as fp16, which must hold every value exactly" if read \
            else f"whole fp16 numbers given as {port.dtype}"
    return f"{port.dtype} rounded to fp16" if read else f"fp16 widened to {port.dtype}"
