"""Normalisations that are written out in other operations.

For each tensor x something takes means of, what is computed of x and these means is read as sums of products (see
moments.py). (x - mean) times the reciprocal root of the variance is layer normalisation over those dimensions, x times
that of the mean square RMS normalisation, whatever operations say so and in whatever order gain and offset are applied;
group, instance and batch normalisation are the same over other dimensions. One node then computes them from x - mean,
where squares do not overflow and differences of large numbers lose nothing.

Of variances and deviations that something else reads, those are rewritten that fp16 does not hold: mean square less
squared mean, and roots of means of squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops.arithmetic import scalar
from openane.ops.element_layouts import ElementLayout, axes_along, runs_of
from openane.ops.halves import LARGEST
from openane.ops.held_factors import multiplied, shifted, with_digits
from openane.ops.moment_reading import REALS, VIEWS, MomentReader, MomentReading, PlacedGraph
from openane.ops.moments import CLOSE, ONE, X, close
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

Replacements = dict[int, tuple[Node, ...]]
"""What takes the place of a node, by its position."""


@dataclass(frozen=True, slots=True)
class Norm:
    """gain * (x - mean) / sqrt(variance + epsilon) + offset where it is `centred`, gain * x / sqrt(mean square +
    epsilon) where not."""

    centred: bool
    epsilon: float
    gain: np.ndarray
    offset: np.ndarray | None


def written_norms(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, with normalisations that are written out as nodes of their own."""
    made = Replacements()
    for x, axes in subjects(placed):
        reader = MomentReader(placed, x, axes)
        norms = {number: norm for number, reading in reader.known.items()
                 if (norm := _norm(reader, reading)) is not None}
        for node in reader.nodes if norms else ():
            if placed.order[id(node)] not in made and _ends(node, norms):
                made[placed.order[id(node)]] = _made(reader, norms[id(node.output)], node, names)
    return replaced(placed.graph, made)


def _ends(node: Node, norms: Mapping[int, Norm]) -> bool:
    """Whether a node is the last of a norm: what follows one is of norms alone."""
    return id(node.output) in norms and \
        any(not value.constant and id(value) not in norms for value in node.values())


def replaced(graph: Graph, made: Replacements) -> Sequence[Node]:
    """The nodes of the graph with others in place of some."""
    if not made:
        return graph.nodes
    return [new for place, node in enumerate(graph.nodes) for new in made.get(place, (node,))]


def subjects(placed: PlacedGraph) -> Iterator[tuple[Value, tuple[int, ...]]]:
    """What means are taken of, and over which axes: operands of means, and what these are squares, products or views
    of."""
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for average in placed.averages:
        found = None if average.count == 1 else (average.x, average.axes)
        while found is not None and found[0].dtype in REALS:
            if (id(found[0]), found[1]) not in seen:
                seen.add((id(found[0]), found[1]))
                yield found
            found = _below(placed.producers.get(id(found[0])), found[1])


def _below(node: Node | None, axes: tuple[int, ...]) -> tuple[Value, tuple[int, ...]] | None:
    """What a node makes another form of (its square, magnitude, a multiple, a view), and its axes."""
    x = None if node is None else node.get("x")
    if node is None or x is None:
        return None
    if node.op == "transpose":
        return x, tuple(sorted(int(node["perm"].array()[axis]) % x.type.rank for axis in axes))
    if node.op in VIEWS:
        along = axes_along(x.shape, runs_of(node.output.shape, axes)) if x.dtype in REALS else None
        return None if along is None else (x, along)
    if node.op in ("square", "abs") or (node.op == "pow" and scalar(node["y"]) == 2):
        return x, axes
    return _multiple(node, axes)


def _multiple(node: Node, axes: tuple[int, ...]) -> tuple[Value, tuple[int, ...]] | None:
    """What a product or quotient is the square, or a multiple, of."""
    if node.op not in ("mul", "real_div") or node["x"].shape != node.output.shape:
        return None
    if node["x"] is node["y"] or scalar(node["y"]) is not None:
        return node["x"], axes
    return (node["y"], axes) if node.op == "mul" and scalar(node["x"]) is not None else None


def _norm(reader: MomentReader, reading: MomentReading) -> Norm | None:
    """The norm a value is."""
    if reading.layout is not ElementLayout.WHOLE or reading.logarithm:
        return None
    terms = dict(reading.terms)
    offset = terms.pop(ONE, None)
    first = next((term for term in terms if term[:3] == X[:3] and term.root == 1), None)
    if first is None or reader.settled(spread := reader.moments.spreads[first.spread]):
        return None
    gain = terms.pop(first)
    back = terms.pop(first._replace(x=0, mean=1), None)
    if terms or (back is not None) != spread.centred or (back is not None and not close(gain, -back)):
        return None
    norm = Norm(spread.centred, spread.epsilon / spread.gain, gain * spread.gain ** -0.5, offset)
    return norm if np.isfinite([norm.epsilon, *norm.gain.ravel()]).all() else None


def _made(reader: MomentReader, norm: Norm, node: Node, names: set[str]) -> tuple[Node, ...]:
    """The norm in place of the node, then gain and offset."""
    rewriter, x, epsilon = Rewriter(node, names), reader.x, norm.epsilon
    if epsilon > LARGEST:  # x times a power of two has the same norm with epsilon times its square
        power = -math.frexp(epsilon)[1] // 2
        x, epsilon = shifted(rewriter, x, power), epsilon * 4.0 ** power
    result = rewriter.single("layer_norm" if norm.centred else "rms_norm", x=x, axes=list(reader.axes),
                             epsilon=epsilon)
    if norm.gain.size > 1 or abs(norm.gain.item() - 1) > CLOSE:
        result = multiplied(rewriter, result, norm.gain)
    if norm.offset is not None:
        result = rewriter.single("add", x=result, y=with_digits(norm.offset))
    return rewriter.instead([as_result(rewriter, result, node.output)])


def as_result(rewriter: Rewriter, value: Value, result: Value) -> Value:
    """The value in the shape and of the element type of a result."""
    if value.shape != result.shape:
        value = rewriter.single("reshape", x=value, shape=list(result.shape))
    return value if value.dtype == result.dtype else rewriter.single("cast", x=value, dtype=result.dtype)
