"""stack: tensors of one shape side by side along a new dimension."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import DType
from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (Parameter("values", variadic=True), Parameter("axis", const=True, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("stack", PARAMETERS, operands)
    first, *others = arguments.tensors("values", ranks=(0, 7))
    for position, value in enumerate(others, 1):
        if value.type != first.type:
            raise refusal("stack", "values", f"must all be {first.type}", f"{value.type} at {position}")
    axis = arguments.axis("axis", first.type.rank + 1)
    return (TensorType(first.dtype, (*first.shape[:axis], 1 + len(others), *first.shape[axis:])),)


def _reference(*, values: tuple[np.ndarray, ...], axis: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.stack(values, int(axis)),)


def _lower(node: Node, lowering: Lowering) -> None:
    """One copy for each tensor."""
    arguments = Arguments("stack", PARAMETERS, node.operands)
    values = arguments.tensors("values")
    axis = arguments.axis("axis", values[0].type.rank + 1)
    parts = [lowering.native(value) for value in values]
    dtype = parts[0].dtype
    if any(part.dtype is not dtype for part in parts):
        parts, dtype = [lowering.read(value) for value in values], DType.FLOAT16
    shape = (*values[0].shape[:axis], 1, *values[0].shape[axis:])
    deeper = [part.seen(part.offset, shape, (*part.strides[:axis], 0, *part.strides[axis:])[:len(shape)])
              for part in parts]
    lowering.join(lowering.native_result(node.output, dtype), deeper, axis)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Each operand's slice of what comes from upstream."""
    arguments = Arguments("stack", PARAMETERS, node.operands)
    values, given = arguments.tensors("values"), only(upstream)
    axis, rank = arguments.axis("axis", given.type.rank), given.type.rank
    parts = []
    for position in range(len(values)):
        begin, end = [0] * rank, list(given.shape)
        begin[axis], end[axis] = position, position + 1
        parts.append(backward.single("slice_by_index", x=given, begin=begin, end=end,
                                     squeeze_mask=[d == axis for d in range(rank)]))
    return {"values": tuple(parts)}


OPS = (Op("stack", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient, moves=Movement.MIX),)
