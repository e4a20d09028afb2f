"""Infinities in the middle of a backward pass, seen from outside.

The engine makes no NaN: infinity less infinity and zero times infinity are +0 (measured on M1). A gradient that leaves
fp16 half-way therefore comes back as zeros wherever infinities of both signs meet in a sum, and what was computed says
nothing of it. So the greatest and the least element of every gradient that such a sum reads are outputs of the graph,
too: an infinity is one of them. The other operations of a backward pass hand infinities on, or take them times a true
zero, whose product is zero at any scale. Opposite infinities that meet in an addition of two terms are not seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from openane.graph import Graph, Node, Value
from openane.ops import all_ops
from openane.ops.spec import Movement
from openane.passes.rewrite import taken_names
from openane.training.ports import Addition

WATCH = "watched_extremes"
"""The output: fp16 [2 * watched, 1], least and greatest elements."""
LEVELS = ("all", "weights", "none")
WHOLE = (Movement.SHAPE, Movement.DIMENSIONS, Movement.REPEATS)
"""Whole tensors laid out anew: their greatest and least elements are those of what they are made of."""


def _is_tensor(value: Value) -> bool:
    """Whether a value is computed and no scalar."""
    return not value.constant and value.type.rank > 0


def _reading(nodes: Iterable[Node], reached: set[int]) -> Iterator[tuple[Node, list[Value]]]:
    """The nodes that depend on the values `reached` by id, and what they read that does; their results are reached."""
    for node in nodes:
        read = [value for value in node.values() if id(value) in reached]
        if read:
            reached.update(map(id, node.outputs))
            yield node, read


def watched(graph: Graph, source: str, level: str) -> tuple[Value, ...]:
    """The values of a joint graph that depend on the input `source` (what the backward pass starts from) and are read
    by sums of many terms, each once however its elements are laid out.

    With the level `weights` only by those from which nothing but an output comes, the products that give the weights'
    gradients; `none`: no value.
    """
    if level == "none":
        return ()
    useful = _useful(graph)
    nodes = [node for node in graph.nodes if not useful.isdisjoint(map(id, node.outputs))]
    ends = _ending(nodes, graph.outputs) if level == "weights" else useful
    found, roots = dict[int, Value](), dict[int, Value]()
    for node, read in _reading(nodes, {id(value) for value in graph.inputs if value.name == source}):
        if _lays_out(node):
            roots[id(node.output)] = roots.get(id(read[0]), read[0])
        elif _sums(node) and not ends.isdisjoint(map(id, node.outputs)):
            known = [roots.get(id(value), value) for value in read]
            found |= zip(map(id, known), known, strict=True)
    return tuple(filter(_is_tensor, found.values()))


def _lays_out(node: Node) -> bool:
    """Whether its one result is its operand x, laid out anew."""
    op = all_ops().get(node.op)  # not known: reads and writes of states
    return op is not None and op.moves in WHOLE and len(node.outputs) == 1


def _sums(node: Node) -> bool:
    """Whether infinities can cancel in it: it does not compute each element from one or two."""
    op = all_ops().get(node.op)
    return op is None or (op.moves is None and not op.hands_on)


def with_watch(graph: Graph, source: str, level: str) -> Graph:
    """The graph with the output WATCH, where there is anything to watch."""
    values = watched(graph, source, level)
    if not values:
        return graph
    builder = Addition(taken_names(graph))
    parts = []
    for value in values:
        for name in ("reduce_min", "reduce_max"):
            extreme = builder.single(name, x=value, axes=list(range(value.type.rank)), keep_dims=True)
            parts.append(builder.single("reshape", x=extreme, shape=[1, 1]))
    whole = builder.single("concat", WATCH, values=tuple(parts), axis=0)
    made = replace(graph, nodes=(*graph.nodes, *builder.nodes), outputs=(*graph.outputs, whole))
    made.verify()
    return made


def _useful(graph: Graph) -> set[int]:
    """id(value) of what the outputs are computed from."""
    found = {id(value) for value in graph.outputs}
    for node in reversed(graph.nodes):
        if any(id(value) in found for value in node.outputs):
            found.update(map(id, node.values()))
    return found


def _ending(nodes: Iterable[Node], outputs: Iterable[Value]) -> set[int]:
    """id(value) of those outputs, and of what is laid out anew to be one and read by nothing else."""
    found, nodes = {id(value) for value in outputs}, list(nodes)
    readers: dict[int, list[Node]] = {}
    for node in nodes:
        for value in node.values():
            readers.setdefault(id(value), []).append(node)
    for node in reversed(nodes):
        for value in node.outputs:
            if id(value) in readers and all(_lays_out(user) and id(user.output) in found
                                            for user in readers[id(value)]):
                found.add(id(value))
    return found
