"""ONNX reductions, softmax and normalisations."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.errors import GraphError
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, Operand, Step, axes_of, axis_of

SMALLEST_EPSILON = 2.0 ** -24
"""Smallest positive fp16: an epsilon below it would become 0 and protect from nothing."""


def _reduce(op: str, since: int) -> Handler:
    def handler(step: Step) -> Operand:
        x, axes = step.value(0), axes_of(step, 1, since)
        if not axes and step.integer("noop_with_empty_axes", 0):
            return x
        return step.add(op, x=x, axes=axes or range(x.type.rank), keep_dims=bool(step.integer("keepdims", 1)))
    return handler


def _softmax(step: Step) -> Operand:
    """Before opset 13 softmax runs over all dimensions from `axis` on as if they were one."""
    x = step.value(0)
    axis = axis_of(step, step.integer("axis", -1 if step.version >= 13 else 1), x.type.rank)
    tail = x.shape[axis:]
    if step.version >= 13 or prod(tail) == x.shape[axis]:
        return step.add("softmax", x=x, axis=axis)
    if sum(extent > 1 for extent in tail) == 1:
        return step.add("softmax", x=x, axis=axis + max(range(len(tail)), key=lambda place: tail[place]))
    rows = step.add("reshape", part="rows", x=x, shape=(prod(x.shape[:axis]), prod(tail)))
    return step.add("reshape", x=step.add("softmax", part="softmax", x=rows, axis=1), shape=x.shape)


def _batch_normalization(step: Step) -> Operand:
    """The variance is divided out in double precision: fp16 could not hold a small one."""
    step.only_output("running statistics")
    if step.integer("training_mode", 0):
        raise step.refuse("training_mode", 1, "export the model for inference (model.eval())")
    x = step.value(0)
    scale, offset, mean, variance = (step.array(index + 1, what).astype(np.float64).reshape(-1)
                                     for index, what in enumerate(("scale", "B", "mean", "var")))
    root = np.sqrt(variance + step.number("epsilon", 1e-5))
    if not (root > 0).all():
        raise GraphError(f"{step.label}: var + epsilon must be positive, found {variance.min():g}")
    gain = scale / root
    if x.type.rank < 3:
        shifted = step.add("mul", part="gain", x=x, y=step.half(gain, 1))
        return step.add("add", x=shifted, y=step.half(offset - mean * gain, 2))
    return step.add("batch_norm", x=x, mean=step.half(mean, 3), variance=np.ones(variance.shape, np.float16),
                    gamma=step.half(gain, 1), beta=step.half(offset, 2), epsilon=0.0)


def _layer_normalization(step: Step) -> Operand:
    step.only_output("mean and deviation")
    x = step.value(0)
    axis = axis_of(step, step.integer("axis", -1), x.type.rank)
    shape = bounded(step, x.shape[axis:])
    gamma = step.half(np.broadcast_to(step.array(1, "scale"), shape), 1)
    beta = step.half(np.broadcast_to(step.array(2, "B"), shape), 2) if step.has(2) else None
    epsilon = max(step.number("epsilon", 1e-5), SMALLEST_EPSILON)
    return step.add("layer_norm", x=x, axes=range(axis, x.type.rank), gamma=gamma, beta=beta, epsilon=epsilon)


OPERATORS: Mapping[str, Handler] = {
    "BatchNormalization": _batch_normalization, "LayerNormalization": _layer_normalization,
    "ReduceMax": _reduce("reduce_max", 18), "ReduceMean": _reduce("reduce_mean", 18),
    "ReduceMin": _reduce("reduce_min", 18), "ReduceSum": _reduce("reduce_sum", 13), "Softmax": _softmax,
}
