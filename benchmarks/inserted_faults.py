"""Operations put into a network that overflow or lose digits by themselves, whatever the network's weights are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Value, substituted
from openane.ops.build import GraphBuilder
from openane.passes.ranges import Range

NAME = "planted"
"""The operation at fault, and what the names of those around it begin with."""
MOST = 2 ** 18
"""Elements of a tensor that operations are put behind."""


class Place:
    """Builds what is put behind a tensor `x` whose numbers are about 1."""

    def __init__(self, b: GraphBuilder, x: Value, seed: int) -> None:
        self.b, self.x, self.rng = b, x, np.random.default_rng(seed)

    def times(self, x: Value, factor: float | np.ndarray, name: str) -> Value:
        """A tensor times constants."""
        return self.b.single("mul", x=x, y=np.asarray(factor, np.float32), name=name)

    def pair(self, op: str, x: Value, y: Value, name: str) -> Value:
        """An operation of two tensors."""
        return self.b.single(op, x=x, y=y, name=name)


def small(at: Place) -> Value:
    """Activations of 2^-23, of which fp16 keeps a bit."""
    shrunk = at.times(at.x, 2.0 ** -23, NAME)
    return at.times(at.b.single("leaky_relu", x=shrunk, alpha=0.5, name=f"{NAME}_bent"), 2.0 ** 15, f"{NAME}_back")


def squares(at: Place) -> Value:
    """Squares that overflow, and their root."""
    large = at.times(at.x, 2.0 ** 9, f"{NAME}_large")
    root = at.b.single("sqrt", x=at.pair("mul", large, large, NAME), name=f"{NAME}_root")
    return at.times(root, 2.0 ** -9, f"{NAME}_back")


def logits(at: Place) -> Value:
    """A softmax of numbers beyond 65504."""
    return at.b.single("softmax", x=at.times(at.times(at.x, 2.0 ** 5, f"{NAME}_large"), 2.0 ** 14, NAME), axis=-1,
                       name=f"{NAME}_softmax")


def products(at: Place) -> Value:
    """Two products that cancel but for a few thousandths."""
    nearly = at.times(at.x, 1 + at.rng.standard_normal(at.x.shape[-1]) / 3000, f"{NAME}_nearly")
    first, second = (at.pair("mul", at.x, each, f"{NAME}_{name}") for each, name in ((at.x, "one"), (nearly, "other")))
    return at.times(at.pair("sub", first, second, NAME), 1000.0, f"{NAME}_grown")


def offset(at: Place) -> Value:
    """A constant that is added, beside which fp16 has steps of 2, and taken away again."""
    lifted = at.b.single("add", x=at.x, y=np.float32(3000.0), name=NAME)
    kept = at.b.single("leaky_relu", x=lifted, alpha=0.5, name=f"{NAME}_bent")
    return at.b.single("sub", x=kept, y=np.float32(3000.0), name=f"{NAME}_back")


KINDS: tuple[Callable[[Place], Value], ...] = (small, squares, logits, products, offset)

LEFT: Mapping[Callable[[Place], Value], float] = {small: 2.0 ** 8}
"""How many times smaller than `x` a kind's result is: what reads it gets numbers as large as before, beside which
nothing hides that their digits are lost."""


def inserted(graph: Graph, ranges: Mapping[int, Range], operations: tuple[str, ...],
             seed: int) -> tuple[Graph, Node] | None:
    """The graph with a fault of kind `seed` behind one of `operations`, and the operation at fault; None where no
    tensor is small enough. `ranges` by id of the value."""
    last = set(map(id, graph.outputs))
    sites = [node for node in graph.nodes if node.op in operations and id(node.output) not in last
             and ranges.get(id(node.output), Range(0.0, 0.0)).usual > 0 and node.output.type.elements <= MOST
             and node.output.type.rank > 1 and node.output.shape[-1] > 1]
    if not sites:
        return None
    site = sites[np.random.default_rng(seed).integers(len(sites))]
    b = GraphBuilder()
    x = b.input(f"{NAME}_x", site.output.dtype, site.output.shape)
    unit = 2.0 ** -np.round(np.log2(ranges[id(site.output)].usual))
    at = Place(b, b.single("mul", x=x, y=np.float32(unit), name=f"{NAME}_unit"), seed)
    kind = KINDS[seed % len(KINDS)]
    made = b.finish([at.times(kind(at), LEFT.get(kind, 1.0) / unit, f"{NAME}_rest")])
    put_in = [substituted(node, {id(x): site.output}) for node in made.nodes]
    place = graph.nodes.index(site) + 1
    later = [substituted(node, {id(site.output): made.outputs[0]}) for node in graph.nodes[place:]]
    faulty = next(node for node in put_in if node.name == NAME)
    return replace(graph, nodes=(*graph.nodes[:place], *put_in, *later)), faulty
