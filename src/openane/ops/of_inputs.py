"""What nodes make of a graph's inputs before it is rounded to steps of quantisation: what the host can compute as well
as it rounds, arithmetic on single numbers and sums of rows."""

from __future__ import annotations

from enum import IntEnum

from openane.graph import Node
from openane.ops import get_op
from openane.ops.averages import average_of
from openane.ops.exponents import products
from openane.ops.written_steps import NAME

ROOTS = ("inverse", "rsqrt", "sqrt", "square")
"""The functions that norms are written with."""
FEW = 4
"""Of so many products the sums are that gains and offsets become; others are layers."""
INTEGERS = "int32"


class OfInput(IntEnum):
    """What is rounded: an input as it is, what is computed of it, or a norm of it or a part of one."""

    AS_IT_IS = 0
    COMPUTED = 1
    NORMALISED = 2


def made_of(node: Node) -> OfInput:
    """What a node makes of an input."""
    op = get_op(node.op)
    if op.normalises or node.op in ROOTS or (node.op == "real_div" and not node["y"].constant):
        return OfInput.NORMALISED
    alone = op.moves is not None or (node.op == NAME and not {"y", "axes"} & node.operands.keys())
    return OfInput.AS_IT_IS if alone else OfInput.COMPUTED


def is_arithmetic(node: Node, close: bool) -> bool:
    """Whether a node rounds or moves numbers or, where what is computed is to be `close`, does arithmetic with them."""
    op = get_op(node.op)
    if len(node.outputs) != 1 or not node.computed() or node.output.dtype == INTEGERS:
        return False
    return op.rounds or op.moves is not None or (close and (
        op.arithmetic is not None or op.normalises or node.op in ROOTS or average_of(node) is not None
        or 0 < products(node) <= FEW))
