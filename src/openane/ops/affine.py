"""What a node does to one of its operands where the others are constants: factors, terms, gains and offsets."""

from __future__ import annotations

import math

import numpy as np

from openane.graph import Node, Value
from openane.ops import all_ops, get_op
from openane.ops.arithmetic import first_factor, scalar
from openane.ops.halves import fits, normal
from openane.ops.operands import FLOATS

PRODUCT, SUM, DIFFERENCE, LINE = "mul", "add", "sub", "linear_activation"


def factor(node: Node, x: Value | None = None) -> Value | None:
    """What `x` is multiplied by where the node is their product (the first operand's factor where no x is given)."""
    return _other(node, x, (PRODUCT,))


def summand(node: Node, x: Value | None = None) -> Value | None:
    """What is added to `x` where the node is their sum (to the first operand where no x is given)."""
    return _other(node, x, (SUM,))


def term(node: Node, x: Value) -> Value | None:
    """What is added to `x`, subtracted from it, or what it is subtracted from, where the node is nothing but that."""
    return _other(node, x, (SUM, DIFFERENCE))


def _other(node: Node, x: Value | None, names: tuple[str, ...]) -> Value | None:
    if node.op not in names:
        return None
    first, second = node["x"], node["y"]
    return second if x is None or x is first else first if x is second else None


def scales(node: Node) -> bool:
    """Whether a node is a product with, or a quotient by, one number that two fp16 factors hold."""
    op = all_ops().get(node.op)  # not known: reads and writes of states
    if op is None or op.arithmetic is None or op.arithmetic.affine is None:
        return False
    for name, behind in (("x", False), ("y", True)):
        number = scalar(node[name])
        made = None if not number else op.arithmetic.affine(np.array([number]), behind)
        if made is not None and isinstance(made[0], np.ndarray):
            gain = float(made[0][0])
            return fits(gain / first_factor(gain))
    return False


def power_of_two(node: Node) -> float | None:
    """The power of two that x is multiplied by where that is all a node is; None for others. It changes no digit, so
    it makes no difference whether the task of a neighbour does it."""
    if node.op == LINE:
        number = scalar(node["alpha"]) if scalar(node["beta"]) == 0 else None
    else:
        other = factor(node)
        known = other is not None and not node["x"].constant and node["x"].type == node.output.type
        number = scalar(other) if other is not None and known and node.output.dtype in FLOATS else None
    return number if number is not None and number > 0 and normal(number) and math.frexp(number)[0] == 0.5 else None


def may_be_affine(node: Node) -> bool:
    """Whether the node's operation has a gain and an offset for each channel, with constants of the right shape."""
    op = get_op(node.op)
    return op.channel_affine is not None or (op.arithmetic is not None and op.arithmetic.affine is not None)


def gain_and_offset(node: Node, x: Value, axis: int) -> tuple[np.ndarray, np.ndarray] | None:
    """What the node does to each channel of `x`, counted along `axis`: gains and offsets, float64 [channels]. None when
    it does something else, or its result is of another type."""
    if not may_be_affine(node) or len(node.outputs) != 1 or node.output.type != x.type:
        return None
    op = get_op(node.op)
    if op.channel_affine is not None:
        return op.channel_affine(node) if axis == 1 else None
    affine = None if op.arithmetic is None else op.arithmetic.affine
    behind, channels = node["x"] is x, x.shape[axis]
    numbers = per_channel(node["y"] if behind else node["x"], x.type.rank, axis, channels)
    made = None if numbers is None or affine is None else affine(numbers, behind)
    if made is None:
        return None
    gain, offset = (np.broadcast_to(np.asarray(each, np.float64), (channels,)) for each in made)
    return gain, offset


def per_channel(value: Value, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """A constant that is broadcast to a tensor of `rank` as one number per channel, float64; None for others."""
    if not value.constant or value.type.rank > rank:
        return None
    shape = (1,) * (rank - value.type.rank) + value.shape
    if any(extent != 1 for i, extent in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(value.array().reshape(-1).astype(np.float64), (channels,))


def folding(node: Node, x: Value) -> str:
    """What the node does to `x`, by name: its operation's, or sub_from where x is what is subtracted."""
    return "sub_from" if node.op == DIFFERENCE and node["x"] is not x else node.op
