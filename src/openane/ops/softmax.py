"""softmax: exp(x - max) / sum of it along one axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import Activation, Binary, Post, Reduce, Root
from openane.graph import Node, Operand, TensorType
from openane.ops import tables
from openane.ops.activation import half
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

PARAMETERS = (Parameter("x"), Parameter("axis", const=True, default=-1, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("softmax", PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(1, 8))
    arguments.axis("axis", x.type.rank)
    return (x.type,)


def _reference(*, x: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, ...]:
    along = int(axis)
    powers = np.exp((x - x.max(axis=along, keepdims=True)).astype(np.float64))
    return ((powers / powers.sum(axis=along, keepdims=True)).astype(np.float32),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Maximum, difference times log2 e, table of 2^x, reciprocal of the sum, product.

    An axis along planes stays there (maximum over channels, sum by a convolution with the reciprocal as its table);
    any other lies along rows, which planar reductions fold.
    """
    axis = Arguments("softmax", PARAMETERS, node.operands).axis("axis", node["x"].type.rank)
    source = lowering.compact(lowering.read(node["x"]))
    planes = source.contiguous != axis and source.shape[axis] > 1 and source.shape[axis] <= lowering.limits.channels
    source = source if planes else lowering.with_last(source, axis)
    row = source.contiguous if planes and source.contiguous is not None else -1
    order = (*(d for d in range(source.rank) if d != source.contiguous), -1 if source.contiguous is None
             else source.contiguous)
    shape = tuple(1 if d == axis else extent for d, extent in enumerate(source.shape))
    largest, total = lowering.near(shape, row), lowering.near(shape, row)
    lowering.reduce(largest, source, (axis,), Reduce.MAXIMUM)
    difference, powers = lowering.scratch(source.shape, order), lowering.scratch(source.shape, order)
    lowering.elementwise(difference, source, largest, subtract=True, scale=half(1 / np.log(2)))
    lowering.copy(difference, powers, Post(activation=Activation.TABLE), tables.exp2())
    if not (planes and lowering.sum_planes(total, powers, axis, tables.inverse())):
        lowering.reduce(total, powers, (axis,), root=Root.RECIPROCAL)
    lowering.elementwise(lowering.result(node.output), powers, total, Binary.MULTIPLY)


OPS = (Op("softmax", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower),)
