"""Variances, mean squares and their roots that are written out and that something else than a norm reads.

Mean square less squared mean is computed as the mean square of x - mean, and a root of either as a length, whose
squares are no fp16 numbers (see reduce_composed.py): large numbers stay in range, and small ones keep their digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import frexp, sqrt

import numpy as np

from openane.graph import Node, Value, numpy_type
from openane.ops import get_op
from openane.ops.averages import average_of
from openane.ops.element_layouts import ElementLayout
from openane.ops.held_factors import multiplied
from openane.ops.moment_reading import MomentReader, MomentReading, PlacedGraph
from openane.ops.moments import CLOSE, MEAN, Spread, X
from openane.ops.rewriter import Rewriter
from openane.ops.written_norms import Replacements, as_result, replaced, subjects
from openane.record_classes import dataclass

ALONE = frozenset(["reduce_l2_norm", "reduce_sum_square"])
"""What is computed so by itself."""
RECIPROCALS = frozenset(["inverse", "real_div", "rsqrt"])
"""Operations whose result is the reciprocal of a root."""


def written_roots(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, roots of variances and mean squares, and their reciprocals, as lengths. Reciprocals that
    stay beside a norm are left: its gradient reads them."""
    return _rewritten(placed, names, Rewriting(_root_of, _as_length, lambda node: node.op in RECIPROCALS))


def written_variances(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, variances and mean squares as sums of squares of what is small enough. Means of squares
    that stay beside a norm are left, too."""
    return _rewritten(placed, names, Rewriting(_spread_of, _as_squares, lambda node: average_of(node) is not None))


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What is `found` of a value's reading, what to `make` of the first node that has it, and which nodes to `leave`
    where their tensor is normalised as well."""

    found: Callable[[MomentReader, MomentReading], Spread | None]
    make: Callable[[MomentReader, Rewriter, Node, Value, Spread], Value]
    leave: Callable[[Node], bool]


def _rewritten(placed: PlacedGraph, names: set[str], rewriting: Rewriting) -> Sequence[Node]:
    made, left = Replacements(), set[int]()
    if not placed.averages:
        return placed.graph.nodes
    normal = {id(node.get("x")) for node in placed.graph.nodes if get_op(node.op).normalises and node.op not in ALONE}
    for x, axes in subjects(placed):
        reader = MomentReader(placed, x, axes)
        for node, spread in _firsts(reader, rewriting):
            if id(x) in normal and rewriting.leave(node):
                left.add(id(node))
            elif id(node) not in left and placed.order[id(node)] not in made:
                made[placed.order[id(node)]] = _made(reader, node, names, spread, rewriting)
    return replaced(placed.graph, made)


def _firsts(reader: MomentReader, rewriting: Rewriting) -> list[tuple[Node, Spread]]:
    """The first node of each spread that is found."""
    spreads: dict[int, Spread] = {}
    for number, reading in reader.known.items():
        spread = rewriting.found(reader, reading) if reading.layout is ElementLayout.KEPT else None
        if spread is not None and not reader.settled(spread):
            spreads[number] = spread
    return [(node, spreads[id(node.output)]) for node in reader.nodes if _begins(node, spreads)]


def _made(reader: MomentReader, node: Node, names: set[str], spread: Spread, rewriting: Rewriting) -> tuple[Node, ...]:
    rewriter = Rewriter(node, names)
    x = _centred(reader, rewriter, node) if spread.centred else reader.x
    return rewriter.instead([as_result(rewriter, rewriting.make(reader, rewriter, node, x, spread), node.output)])


def _begins(node: Node, spreads: Mapping[int, Spread]) -> bool:
    """Whether a node is the first to have a spread, and does not compute it well by itself."""
    if node.op in ALONE or id(node.output) not in spreads:
        return False
    return not any(_same(spreads.get(id(value)), spreads[id(node.output)]) for value in node.values())


def _same(operand: Spread | None, spread: Spread) -> bool:
    """Whether an operand is a spread of the same kind, so that the node only scales or shifts it."""
    return operand is not None and operand.centred == spread.centred


def _root_of(reader: MomentReader, reading: MomentReading) -> Spread | None:
    """The spread whose root, or reciprocal root, the value is."""
    if reading.logarithm or len(reading.terms) != 1:
        return None
    (term, gain), = reading.terms.items()
    if term[:3] != (0, 0, 0) or term.root not in (-1, 1) or gain.size != 1 or gain.item() <= 0:
        return None
    spread, factor = reader.moments.spreads[term.spread], gain.item() ** (-2 * term.root)
    return Spread(spread.centred, spread.gain * factor, spread.epsilon * factor)


def _spread_of(reader: MomentReader, reading: MomentReading) -> Spread | None:
    return None if reading.logarithm else reader.moments.spread(reading.terms)


def _centred(reader: MomentReader, rewriter: Rewriter, before: Node) -> Value:
    """x - mean, as something made before has it or anew."""
    for node in reader.nodes:
        if node is before:
            break
        if node.output.type == reader.x.type and _is_difference(reader.known[id(node.output)]):
            return node.output
    mean = rewriter.single("reduce_mean", x=reader.x, axes=list(reader.axes), keep_dims=True)
    return rewriter.single("sub", x=reader.x, y=mean)


def _is_difference(reading: MomentReading) -> bool:
    """Whether a value is x - mean."""
    terms = reading.terms
    return not reading.logarithm and reading.layout is ElementLayout.WHOLE and terms.keys() == {X, MEAN} and \
        bool((terms[X] == 1).all() and (terms[MEAN] == -1).all())


def _scaled(rewriter: Rewriter, value: Value, factor: float) -> Value:
    return value if abs(factor - 1) < CLOSE else multiplied(rewriter, value, factor)


def _factors(reader: MomentReader, spread: Spread) -> tuple[float, float]:
    """What makes the length of x the root of the spread: a power of two, which changes no digit of x, and the rest."""
    whole = sqrt(spread.gain / reader.count)
    power = 2.0 ** (frexp(whole / sqrt(0.5))[1] - 1)
    return power, whole / power


def _as_length(reader: MomentReader, rewriter: Rewriter, node: Node, x: Value, spread: Spread) -> Value:
    """The length of the multiple of x; with epsilon that of the length and the root of epsilon."""
    power, rest = _factors(reader, spread)
    axes = list(reader.axes)
    length = rewriter.single("reduce_l2_norm", x=_scaled(rewriter, x, power), axes=axes, keep_dims=True)
    length = _scaled(rewriter, length, rest)
    if spread.epsilon:
        other = rewriter.constant(np.full(length.shape, sqrt(spread.epsilon), numpy_type(x.dtype)))
        both = rewriter.single("concat", values=(length, other), axis=axes[0])
        length = rewriter.single("reduce_l2_norm", x=both, axes=axes[:1], keep_dims=True)
    reading = reader.known[id(node.output)]
    return rewriter.single("inverse", x=length, epsilon=0.0) if next(iter(reading.terms)).root == 1 else length


def _as_squares(reader: MomentReader, rewriter: Rewriter, node: Node, x: Value, spread: Spread) -> Value:
    """The sum of squares of the multiple of x."""
    power, rest = _factors(reader, spread)
    squares = rewriter.single("reduce_sum_square", x=_scaled(rewriter, x, power), axes=list(reader.axes),
                              keep_dims=True)
    squares = _scaled(rewriter, squares, rest ** 2)
    return rewriter.single("add", x=squares, y=spread.epsilon) if spread.epsilon else squares
