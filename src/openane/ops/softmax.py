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
    """Maximum, difference times log2 e, table of 2^x, sum with reciprocal, product; the axis lies along rows."""
    axis = Arguments("softmax", PARAMETERS, node.operands).axis("axis", node["x"].type.rank)
    source = lowering.with_last(lowering.compact(lowering.read(node["x"])), axis)
    order = (*(d for d in range(source.rank) if d != axis), axis)
    shape = tuple(1 if d == axis else extent for d, extent in enumerate(source.shape))
    largest, total = lowering.near(shape), lowering.near(shape)
    lowering.reduce(largest, source, (axis,), Reduce.MAXIMUM)
    difference, powers = lowering.scratch(source.shape, order), lowering.scratch(source.shape, order)
    lowering.elementwise(difference, source, largest, subtract=True, scale=half(1 / np.log(2)))
    lowering.copy(difference, powers, Post(activation=Activation.TABLE), tables.exp2())
    lowering.reduce(total, powers, (axis,), root=Root.RECIPROCAL)
    lowering.elementwise(lowering.result(node.output), powers, total, Binary.MULTIPLY)


OPS = (Op("softmax", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower),)
