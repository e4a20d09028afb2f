"""Operations whose results are too large to stay in L2 are computed strip by strip: all of them for some rows, then all
of them for the next, so that what passes between them need not go through memory.

A region is what can be computed so: from its first operation on every one that goes along the same rows, none of which
another operation needs whole before. What leaves the region is joined again; weights are stored once, and fetched for
every strip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from math import prod

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.optimisation import Choices
from openane.ops.rewriter import fresh_name
from openane.ops.strips import carried, followed, joined, narrowed, strip, taken
from openane.passes.rewrite import rebuilt, taken_names
from openane.record_classes import dataclass
from openane.rounding import ceil_div

CUT = 32
"""Rows after which a strip begins: where tensors lie turned, no operand starts inside a burst."""
ELEMENT = 2
ROWS = 2
PLACES = (3, ROWS)
"""How many from the last the dimensions are that strips go along: heads or channels first, then rows."""
PAYS = 2
"""Large tensors that a region must keep from memory; a node of several tasks keeps two, and so does one that makes what
a depthwise convolution reads."""


@dataclass(slots=True)
class _Region:
    """Nodes that go along `extent` rows, in order, and the dimension that is, by id of each value they make or read so;
    strips begin at multiples of `cut`; `after` has the ids of values that depend on the region without being in it."""

    extent: int
    cut: int
    nodes: list[Node] = field(default_factory=list)
    axes: dict[int, int] = field(default_factory=dict)
    made: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)

    def take(self, node: Node, axis: int) -> bool:
        """Adds a node whose result goes along `axis`; False where its operands do not suit."""
        found = carried(node, axis)
        if found is None or node.output.shape[axis] != self.extent:
            return False
        along = {name: (value, found.get(name)) for name, value in node.operands.items() if isinstance(value, Value)}
        if not all(self._suits(value, own) for value, own in along.values()):
            return False
        self.axes.update({id(value): own for value, own in along.values() if own is not None})
        self.axes[id(node.output)] = axis
        self.made.add(id(node.output))
        self.nodes.append(node)
        return True

    def reads(self, node: Node) -> bool:
        """Whether a node depends on the region."""
        return any(id(value) in self.made or id(value) in self.after for value in node.values())

    def _suits(self, value: Value, own: int | None) -> bool:
        """Whether an operand can be read along dimension `own`, or whole."""
        if id(value) in self.after:
            return False
        if own is None:
            return id(value) not in self.made
        return value.shape[own] == self.extent and self.axes.get(id(value), own) == own


def in_strips(graph: Graph, choices: Choices) -> Graph:
    """The graph with regions computed in strips of which no tensor is larger than the choices say."""
    for place in PLACES if choices.strip_bytes else ():
        graph = _along(graph, place, choices)
    return graph


def _along(graph: Graph, place: int, choices: Choices) -> Graph:
    """The graph with regions in strips along dimensions that are so many from the end where they begin."""
    done: set[int] = set()
    while True:
        found = (_region(graph, node, place, choices) for node in graph.nodes if id(node) not in done
                 and not done.add(id(node)))  # type: ignore[func-returns-value]
        region = next((each for each in found if each is not None), None)
        if region is None:
            return graph
        graph, made = _rewritten(graph, region, choices)
        done |= made


def _region(graph: Graph, seed: Node, place: int, choices: Choices) -> _Region | None:
    """What can be computed in strips from a node on, if that pays."""
    if len(seed.outputs) != 1 or seed.output.type.rank < place or not _joins(seed, choices) or _only_moves(seed):
        return None
    axis = seed.output.type.rank - place
    region = _Region(seed.output.shape[axis], CUT if place == ROWS else 1)
    if region.extent < 2 * region.cut or not region.take(seed, axis):
        return None
    for node in graph.nodes[graph.nodes.index(seed) + 1:]:
        if region.reads(node) and not _follows(region, node, choices):
            region.after |= set(map(id, node.outputs))
    return region if _kept(graph, region, choices) >= PAYS else None


def _kept(graph: Graph, region: _Region, choices: Choices) -> int:
    """How many large tensors need not go through memory."""
    close = graph.metadata.get(FUNCTIONS) == CLOSE
    leaving = {id(value) for value in _leaving(graph, region)}
    large = [node for node in region.nodes if _bytes(node.output) > choices.strip_bytes]
    weighted = [node for node in region.nodes if _by_channels(node)]
    if weighted:  # what makes channels does what follows at once: only what another one reads is kept
        read = {id(value) for node in weighted for value in node.values()} - leaving
        return PAYS * sum(id(node.output) in read for node in large)
    return sum((id(node.output) not in leaving) + 2 * _of_several_tasks(node, close) for node in large)


def _of_several_tasks(node: Node, close: bool) -> bool:
    """Whether a node passes tensors as large as its result between its tasks."""
    op = get_op(node.op)
    return op.scores or op.normalises or (close and op.unary is not None and op.unary.closer is not None)


def _follows(region: _Region, node: Node, choices: Choices) -> bool:
    """Adds a node that reads what the region makes, if it can be computed so too."""
    read = next((name for name, value in node.operands.items()
                 if isinstance(value, Value) and id(value) in region.made), None)
    if read is None or not _joins(node, choices):
        return False
    axis = followed(node, read, region.axes[id(node[read])])
    return axis is not None and region.take(node, axis)


def _joins(node: Node, choices: Choices) -> bool:
    """Whether weights are fetched for every strip only where they are to be; those of channels are fetched once."""
    weighted = get_op(node.op).product is not None and any(v.constant for v in node.values() if v.type.rank > 1)
    return bool(choices.strip_products) or not weighted or _by_channels(node)


def _by_channels(node: Node) -> bool:
    """Whether strips along channels take strips of a node's weights."""
    found = carried(node, 1) if len(node.outputs) == 1 and node.output.type.rank > 1 else None
    return found is not None and found.get("weight") == 0


def _only_moves(node: Node) -> bool:
    op = get_op(node.op)
    return op.moves is not None or op.views(node)


def _bytes(value: Value) -> int:
    return prod(value.shape) * ELEMENT


def _leaving(graph: Graph, region: _Region) -> list[Value]:
    """What the region makes for others."""
    inside = {id(node) for node in region.nodes}
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    return [node.output for node in region.nodes if id(node.output) in outputs
            or any(id(user) not in inside for user in users.get(id(node.output), []))]


def _strips(region: _Region, choices: Choices) -> list[tuple[int, int]]:
    """Begin and end of the strips, of about one size."""
    largest = max(_bytes(node.output) for node in region.nodes)
    units = ceil_div(region.extent, region.cut)
    count = min(units, ceil_div(largest, choices.strip_bytes))
    ends = [min(region.extent, region.cut * (units * number // count)) for number in range(1, count + 1)]
    return list(pairwise((0, *ends)))


def _rewritten(graph: Graph, region: _Region, choices: Choices) -> tuple[Graph, set[int]]:
    """The graph with a region in strips, and the ids of the nodes that compute them."""
    names = taken_names(graph)
    leaving = _leaving(graph, region)
    made: list[Node] = []
    strips: list[Mapping[int, Value]] = []
    for number, rows in enumerate(_strips(region, choices)):
        known: dict[int, Value] = {}
        made += _strip(region, rows, known,
                       lambda name, n=number: fresh_name(f"{name}_{n}", names))  # type: ignore[misc]
        strips.append(known)
    made += [joined([known[id(value)] for known in strips], value, region.axes[id(value)]) for value in leaving]
    before, behind = _around(graph, region)
    return rebuilt(graph, [*before, *made, *behind]), {id(node) for node in made}


def _around(graph: Graph, region: _Region) -> tuple[list[Node], list[Node]]:
    """The nodes outside a region: those that do not depend on it, and those that do."""
    sides: tuple[list[Node], list[Node]] = ([], [])
    inside = {id(node) for node in region.nodes}
    for node in graph.nodes:
        if id(node) not in inside:
            sides[any(id(value) in region.after for value in node.outputs)].append(node)
    return sides


def _strip(region: _Region, rows: tuple[int, int], known: dict[int, Value],
           fresh: Callable[[str], str]) -> Iterator[Node]:
    """The region's nodes for some rows, and the slices of what they read from outside; `known` gets the values."""
    for node in region.nodes:
        found = carried(node, region.axes[id(node.output)])
        assert found is not None, "it was taken into the region"
        along = {name: node[name] for name, own in found.items() if own is not None}
        for value in along.values():
            if id(value) not in known:
                axis = region.axes[id(value)]
                known[id(value)] = narrowed(value, fresh(value.name), axis, rows)
                yield taken(value, known[id(value)], axis, rows)
        known[id(node.output)] = narrowed(node.output, fresh(node.output.name), region.axes[id(node.output)], rows)
        yield strip(node, {name: known[id(value)] for name, value in along.items()}, known[id(node.output)])
