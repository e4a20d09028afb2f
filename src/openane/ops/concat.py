"""concat: tensors joined along one axis, or with `interleave` taking one slice of each in turn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.engine import DType
from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import concatenated
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (
    Parameter("values", variadic=True),
    Parameter("axis", const=True, kind="int32"),
    Parameter("interleave", const=True, default=False, kind="bool"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("concat", PARAMETERS, operands)
    first, *others = arguments.tensors("values", ranks=(1, 8))
    axis = arguments.axis("axis", first.type.rank)
    interleave = arguments.flag("interleave")
    for position, value in enumerate(others, 1):
        if value.dtype != first.dtype or value.type.rank != first.type.rank:
            raise refusal("concat", "values", f"must all have the element type and rank of {first.type}",
                          f"{value.type} at {position}")
        same = [(i == axis and not interleave) or a == b
                for i, (a, b) in enumerate(zip(first.shape, value.shape, strict=True))]
        if not all(same):
            where = "in every dimension when interleaved" if interleave else f"but for axis {axis}"
            raise refusal("concat", "values", f"must agree with {list(first.shape)} {where}",
                          f"{list(value.shape)} at {position}")
    total = first.shape[axis] + sum(value.shape[axis] for value in others)
    return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1:])),)


def _reference(*, values: tuple[np.ndarray, ...], axis: np.ndarray, interleave: np.ndarray) -> tuple[np.ndarray, ...]:
    along = int(axis) % values[0].ndim
    joined = np.concatenate(values, along)
    if interleave:
        joined = np.stack(values, along + 1).reshape(joined.shape)
    return (joined,)


def _lower(node: Node, lowering: Lowering) -> None:
    arguments = Arguments("concat", PARAMETERS, node.operands)
    values = arguments.tensors("values")
    parts = [lowering.native(value) for value in values]
    dtype = parts[0].dtype
    if any(part.dtype is not dtype for part in parts):
        parts, dtype = [lowering.read(value) for value in values], DType.FLOAT16
    target, axis = lowering.native_result(node.output, dtype), arguments.axis("axis", values[0].type.rank)
    if arguments.flag("interleave"):
        every = np.arange(parts[0].shape[axis])
        lowering.copy_indexed(target, axis, [(part, every, every * len(parts) + i) for i, part in enumerate(parts)])
    else:
        lowering.join(target, parts, axis)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Each operand's slice of what comes from upstream."""
    arguments = Arguments("concat", PARAMETERS, node.operands)
    values, given = arguments.tensors("values"), only(upstream)
    axis, interleave = arguments.axis("axis", given.type.rank), arguments.flag("interleave")
    parts, at = [], 0
    for position, value in enumerate(values):
        begin, end, stride = [0] * given.type.rank, list(given.shape), [1] * given.type.rank
        if interleave:
            begin[axis], stride[axis] = position, len(values)
        else:
            begin[axis], end[axis] = at, at + value.shape[axis]
            at = end[axis]
        parts.append(backward.single("slice_by_index", x=given, begin=begin, end=end, stride=stride))
    return {"values": tuple(parts)}


OPS = (Op("concat", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient,
          moves=Movement.MIX, stores=True, fewer=concatenated, homogeneous=lambda node: ("values",)),)
