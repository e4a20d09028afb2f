"""Cosines of angles between vectors that are written out: their product by the product of their lengths.

Products of large vectors are beyond fp16, and so are the squares below the root; those of vectors that were normalised
first are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openane.graph import Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.averages import average_of
from openane.ops.moment_reading import PlacedGraph
from openane.ops.moments import SMALL
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

VIEWS = frozenset(["cast", "expand_dims", "identity", "reshape", "squeeze"])


@dataclass(frozen=True, slots=True)
class Folded:
    """The sum over `axes` of the products of x and y."""

    x: Value
    y: Value
    axes: tuple[int, ...]


def written_cosines(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, with means of products of normalised vectors in place of cosines."""
    if not placed.averages:
        return placed.graph.nodes
    producers, nodes = placed.producers, list[Node]()
    for node in placed.graph.nodes:
        found = _cosine(node, producers) if node.op == "real_div" else None
        nodes += (node,) if found is None else _made(node, names, found)
    return nodes


def _made(node: Node, names: set[str], found: Folded) -> tuple[Node, ...]:
    rewriter = Rewriter(node, names)
    x, y = (rewriter.single("rms_norm", x=value, axes=list(found.axes), epsilon=0.0) for value in (found.x, found.y))
    mean = rewriter.single("reduce_mean", x=rewriter.single("mul", x=x, y=y), axes=list(found.axes), keep_dims=True)
    return rewriter.instead([rewriter.single("reshape", x=mean, shape=list(node.output.shape))])


def _cosine(node: Node, producers: Mapping[int, Node]) -> Folded | None:
    """The product whose quotient by the lengths of its factors the node is."""
    product = _sum(_source(node["x"], producers), producers)
    lengths = _lengths(node["y"], producers)
    if product is None or product.x is product.y or len(lengths) != 2 or product.x.type != product.y.type or \
            {node["x"].shape, node["y"].shape} != {node.output.shape} or node["x"].dtype != product.x.dtype:
        return None
    for first, second in (lengths, lengths[::-1]):
        if first.x is product.x and second.x is product.y and first.axes == second.axes == product.axes:
            return product
    return None


def _lengths(value: Value, producers: Mapping[int, Node]) -> list[Folded]:
    """The sums of squares whose roots' product a value is, kept above a small number or not."""
    node = _unbounded(_source(value, producers), producers)
    under_root = node is not None and node.op == "sqrt"
    inner = _source(node["x"], producers) if node is not None and under_root else node
    if inner is None or inner.op != "mul":
        return []
    sides = [_source(inner[name], producers) for name in ("x", "y")]
    found = [_square(side if under_root else _root(side, producers), producers) for side in sides]
    return [each for each in found if each is not None]


def _unbounded(node: Node | None, producers: Mapping[int, Node]) -> Node | None:
    """What a node keeps above a small number."""
    if node is None or node.op not in ("maximum", "clip"):
        return node
    bound = arguments(node).number("alpha") if node.op == "clip" else scalar(node["y"])
    return _source(node["x"], producers) if bound is not None and 0 <= bound <= SMALL else None


def _root(node: Node | None, producers: Mapping[int, Node]) -> Node | None:
    """What a node is the root of; a length is that of its own sum of squares."""
    if node is None or node.op == "reduce_l2_norm":
        return node
    return _source(node["x"], producers) if node.op == "sqrt" else None


def _square(node: Node | None, producers: Mapping[int, Node]) -> Folded | None:
    """The sum of squares a node is."""
    if node is not None and node.op in ("reduce_sum_square", "reduce_l2_norm"):
        average = average_of(node)
        return None if average is None else Folded(average.x, average.x, average.axes)
    found = _sum(node, producers)
    return found if found is not None and found.x is found.y else None


def _sum(node: Node | None, producers: Mapping[int, Node]) -> Folded | None:
    """The sum of products a node is."""
    average = average_of(node) if node is not None and node.op == "reduce_sum" else None
    product = None if average is None else producers.get(id(average.x))
    if average is None or product is None:
        return None
    if product.op == "square" or (product.op == "pow" and scalar(product["y"]) == 2):
        return Folded(product["x"], product["x"], average.axes)
    return Folded(product["x"], product["y"], average.axes) if product.op == "mul" else None


def _source(value: Value, producers: Mapping[int, Node]) -> Node | None:
    """What makes a value, whatever its shape."""
    node = producers.get(id(value))
    while node is not None and node.op in VIEWS:
        node = producers.get(id(node["x"]))
    return node
