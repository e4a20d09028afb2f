"""What an operation does to powers of two: whether operands that are scaled by 2^e make its result scaled, too.

fp16 keeps the digits of a number whatever its exponent, as long as it is in range. Whoever moves numbers into range
(`passes.rescale`) multiplies tensors by powers of two, which changes no digit, and asks here where that is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Value
from openane.ops import all_ops
from openane.ops.operands import FLOATS
from openane.ops.spec import Movement, Op, Unary
from openane.ops.unary import settings

POINTS = np.array([-3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0])
TIED = {Movement.SHAPE, Movement.DIMENSIONS, Movement.REPEATS, Movement.ORDER, Movement.PART}
SAME_SCALE = {Binary.ADD, Binary.MAXIMUM, Binary.MINIMUM}


class Relation(StrEnum):
    """How the exponents of operands and result hang together."""

    LINEAR = "linear"  # x times constant weights: any exponents, the weights and bias take up the difference
    TIED = "tied"      # the result has the exponent that all the operands named must have
    NORM = "norm"      # the exponent of x goes away, if epsilon is scaled as x's square
    GATED = "gated"    # x times a share that x itself, as it is, decides (Unary.share)
    PRODUCT = "product"  # of two computed tensors: the sum of their exponents
    SCORES = "scores"  # probabilities of scores: only differences of x count
    FIXED = "fixed"    # operands and results as they are


@dataclass(frozen=True, slots=True)
class Exponents:
    """The relation, and the operands it is about, constants among them."""

    relation: Relation
    operands: tuple[str, ...] = ()


FIXED = Exponents(Relation.FIXED)


def exponents(node: Node) -> Exponents:
    """What is true of a node."""
    op = all_ops().get(node.op)  # not known: reads and writes of states
    if op is None or any(value.dtype not in FLOATS for value in node.outputs):
        return FIXED
    if len(node.outputs) > 1:
        return Exponents(Relation.TIED, ("x",)) if op.moves in TIED else FIXED
    relation = _of_x(op, node)
    if relation is not None:
        return Exponents(relation, ("x",))
    if _multiplies(op, node):
        return Exponents(Relation.PRODUCT, ("x", "y"))
    return Exponents(Relation.TIED, tied) if (tied := _tied(op, node)) else FIXED


def _of_x(op: Op, node: Node) -> Relation | None:
    """What is said of the operand x alone."""
    if op.product is not None and op.product.form(node, node.output.name) is not None:
        return Relation.LINEAR
    if op.normalises and _known(node.get("epsilon")):
        return Relation.NORM
    if op.scores:
        return Relation.SCORES
    return Relation.GATED if op.unary is not None and op.unary.share is not None else None


def _multiplies(op: Op, node: Node) -> bool:
    """Whether it is a product of two computed tensors."""
    return op.arithmetic is not None and op.arithmetic.planar is Binary.MULTIPLY \
        and not (_known(node["x"]) or _known(node["y"]))


def _known(value: object) -> bool:
    return isinstance(value, Value) and value.constant


def _tied(op: Op, node: Node) -> tuple[str, ...]:
    """The operands whose exponent the result has; empty where it is another's."""
    if op.arithmetic is not None:
        both = ("x", "y")
        if op.arithmetic.planar in SAME_SCALE:
            return both
        known = [name for name in both if _known(node[name])]
        product = op.arithmetic.planar is Binary.MULTIPLY
        return tuple(name for name in both if name not in known) if product and len(known) == 1 else ()
    if op.homogeneous is not None:
        return op.homogeneous(node)
    if op.moves in TIED or (op.unary is not None and _homogeneous(op.unary, node)):
        return ("x",)
    return ()


def _homogeneous(unary: Unary, node: Node) -> bool:
    """Whether a function of a scaled number is the scaled function: relu and its relatives."""
    if node["x"].dtype not in FLOATS:
        return False
    with np.errstate(all="ignore"):
        stated = settings(unary, node.operands)
        plain = np.asarray(unary.function(POINTS, **stated))
        return all(np.array_equal(np.asarray(unary.function(POINTS * scale, **stated)), plain * scale)
                   for scale in (0.125, 16.0))
