"""sliding_windows: all ranges of `size` elements along one axis, `stride` apart, as a new dimension behind it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType
from openane.ops.gradients import Backward, gathered_back, only, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (
    Parameter("x"),
    Parameter("axis", const=True, kind="int32"),
    Parameter("size", const=True, kind="int32"),
    Parameter("stride", const=True, default=1, kind="int32"),
)


def _windows(operands: Mapping[str, Operand]) -> tuple[int, int, int, int]:
    """Axis, number of windows, their size and the step between them."""
    arguments = Arguments("sliding_windows", PARAMETERS, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 7))
    axis = arguments.axis("axis", x.type.rank)
    size, step = arguments.integer("size", 1), arguments.integer("stride", 1)
    if size > x.shape[axis]:
        raise refusal("sliding_windows", "size", f"must be at most the {x.shape[axis]} elements of the axis", size)
    return axis, (x.shape[axis] - size) // step + 1, size, step


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    axis, count, size, _ = _windows(operands)
    x = Arguments("sliding_windows", PARAMETERS, operands).tensor("x", ELEMENTS)
    return (TensorType(x.dtype, (*x.shape[:axis], count, size, *x.shape[axis + 1:])),)


def _reference(*, x: np.ndarray, axis: np.ndarray, size: np.ndarray, stride: np.ndarray) -> tuple[np.ndarray, ...]:
    along = int(axis) % x.ndim
    seen = np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, int(size), along), -1, along + 1)
    return (seen[(slice(None),) * along + (slice(None, None, int(stride)),)],)


def _lower(node: Node, lowering: Lowering) -> None:
    """A view with two strides where the axis had one."""
    axis, count, size, step = _windows(node.operands)
    tensor = lowering.turned(lowering.native(node["x"]), axis)
    stride = tensor.strides[axis]
    shape = (*tensor.shape[:axis], count, size, *tensor.shape[axis + 1:])
    strides = (*tensor.strides[:axis], stride * step, stride, *tensor.strides[axis + 1:])
    lowering.bind(node.output, tensor.seen(tensor.offset, shape, strides))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Every element gets the sum over the windows it is in."""
    axis, count, size, step = _windows(node.operands)
    x, given = node["x"], only(upstream)
    at = (np.arange(count)[:, None] * step + np.arange(size)).ravel()
    flat = reshaped(backward, given, (*x.shape[:axis], len(at), *x.shape[axis + 1:]))
    return {"x": gathered_back(backward, flat, axis, at, x.shape[axis])}


OPS = (Op("sliding_windows", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient,
          moves=Movement.PART),)
