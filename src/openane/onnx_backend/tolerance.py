"""How near the engine's results are to float32 ones: what fp16 rounds, and what tables miss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.accuracy import ULP, Bound
from openane.ops.affine import factor
from openane.ops.unary import settings

ROUNDINGS = 8
"""Roundings to fp16, each of half a unit in the last place, a result may be away from the float32 one."""
RELATIVE = ROUNDINGS * ULP
"""Relative part of every tolerance: 2^-8."""
ABSOLUTE = 2.0 ** -9
"""Absolute part of every tolerance, of the largest number in the tensor: what sums lose whose terms cancel, eight
roundings of half of it."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far real results may be from expected ones: |result - expected| <= absolute * max(1, largest |expected| of
    the tensor) + relative * |expected|. Integers and booleans are equal."""

    absolute: float
    relative: float

    def allows(self, result: np.ndarray, expected: np.ndarray) -> bool:
        """Whether every element is near enough; shapes and element types must be equal."""
        if result.shape != expected.shape or result.dtype != expected.dtype:
            return False
        if expected.dtype.kind in "iub":
            return bool(np.array_equal(result, expected))
        found, wanted = result.astype(np.float64), expected.astype(np.float64)
        size = np.abs(wanted)
        largest = float(size.max(initial=1.0, where=np.isfinite(size)))
        with np.errstate(invalid="ignore"):
            near = np.abs(found - wanted) <= self.absolute * max(1.0, largest) + self.relative * size
        return bool((near | (found == wanted)).all())


def tolerance(graph: Graph) -> Tolerance:
    """How far results of `graph` may be from float32 ones: fp16's resolution, and for each function that the engine has
    as a table the table's error (ops.spec.Unary), each function once, times the constants that scale it (elu's alpha,
    factors of products)."""
    largest: dict[str, Bound] = {}
    users = graph.users()
    for node in graph.nodes:
        op = get_op(node.op)
        unary = get_op(op.table_of).unary if op.table_of else op.unary
        if unary is not None:
            bound, scale = unary.bound, _scale(node, users.get(id(node.outputs[0]), []))
            known = largest.get(unary.name, Bound(0.0, 0.0))
            largest[unary.name] = Bound(max(known.absolute, bound.absolute * scale),
                                        max(known.relative, bound.relative))
    return Tolerance(ABSOLUTE + sum(bound.absolute for bound in largest.values()),
                     RELATIVE + sum(bound.relative for bound in largest.values()))


def _scale(node: Node, users: Sequence[Node]) -> float:
    """How much constants enlarge the table's error of a node: its settings, and the factors its result goes to."""
    unary = get_op(node.op).unary
    scale = 1.0
    if unary is not None and unary.enlarges is not None:
        scale = max(scale, unary.enlarges(settings(unary, node.operands)))
    for user in users:
        factors = [value for value in user.values() if value.constant and factor(user) is not None]
        if factors:
            scale *= max(1.0, float(np.abs(factors[0].array()).max(initial=0)))
    return scale
