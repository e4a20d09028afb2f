"""What operations that look for positions share: the largest element of each row, and where it first occurs.

Positions are fp16 numbers, exact up to 2048, and so are integers that are looked through. A difference is 0 only
between equal numbers (subnormals are kept), so a step table makes an exact mask of it.
"""

from __future__ import annotations

import numpy as np

from openane.chips import Limits
from openane.engine import Activation, Binary, Post, Reduce
from openane.graph import Node
from openane.ops import tables
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments
from openane.ops.rules import tensors

POSITIONS = 2048
"""Integers up to here are exact in fp16."""
OUTSIDE = 2.0 * POSITIONS
"""Added to the positions that do not count: the sum may be rounded, but stays above every position."""
INDEX_TYPES = ("int32", "uint16")


def index_type(arguments: Arguments, name: str) -> str:
    """The element type of positions that operand `name` states; int32 when left out. Older MIL versions lack the
    operand, so graphs carry it only where it was given."""
    return arguments.text(name, INDEX_TYPES) if arguments.given(name) else INDEX_TYPES[0]


def at_most_five_dimensions(node: Node, limits: Limits) -> bool:
    """Tensors must have at most 5 dimensions."""
    return all(value.type.rank <= 5 for value in tensors(node))


def positions(lowering: Lowering, shape: tuple[int, ...], axis: int) -> Tensor:
    """0, 1, 2, ... along `axis`, extent 1 elsewhere, as a constant."""
    return lowering.constant(np.arange(shape[axis]).reshape(tuple(-1 if d == axis else 1 for d in range(len(shape)))))


def reduced(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape with extent 1 along `axis`."""
    return tuple(1 if d == axis else extent for d, extent in enumerate(shape))


def extreme(lowering: Lowering, source: Tensor, axis: int, smallest: bool) -> Tensor:
    """The largest (or smallest) element along `axis`."""
    target = lowering.near(reduced(source.shape, axis))
    sign = -1.0 if smallest else 1.0
    lowering.reduce(target, source, (axis,), Reduce.MAXIMUM, pre_scale=sign, final_scale=sign)
    return target


def first_position(lowering: Lowering, target: Tensor, source: Tensor, best: Tensor, axis: int) -> None:
    """target = the first position along `axis` where source is `best`, an element of it: differences, a step table
    that puts the others out of range, the positions added, and the smallest sum."""
    difference, away, where = (lowering.scratch(source.shape) for _ in range(3))
    lowering.elementwise(difference, source, best, subtract=True)
    lowering.copy(difference, away, Post(activation=Activation.TABLE), tables.step(OUTSIDE, 0.0, OUTSIDE))
    lowering.elementwise(where, away, positions(lowering, source.shape, axis), Binary.ADD)
    lowering.reduce(target, where, (axis,), Reduce.MAXIMUM, pre_scale=-1.0, final_scale=-1.0)

