"""ONNX reductions, orders and running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.composites import log_softmax, part_of
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand, Result, axes_of

MOST_STEPS = 256
"""Largest extent of an axis whose elements are taken one after the other."""


def _over(step: OnnxStep, rank: int, since: int) -> tuple[int, ...] | None:
    """The axes a reduction folds; None when it does nothing."""
    axes = axes_of(step, 1, since)
    if not axes and step.integer("noop_with_empty_axes", 0):
        return None
    return tuple(step.front(axis, rank) for axis in axes) if axes else tuple(range(rank))


def _reduce(op: str, since: int = 18) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        x = step.number(0)
        axes = _over(step, x.type.rank, since)
        if axes is None:
            return _of_one(step, op, x)
        if not axes:
            return _of_one(step, op, x)
        result = step.add(op, x=step.cast(x, "fp16"), axes=axes, keep_dims=bool(step.integer("keepdims", 1)))
        return step.cast(result, x.dtype)
    return handler


def _of_one(step: OnnxStep, op: str, x: Value) -> Operand:
    """A reduction over no axis: each element is a set of its own."""
    alone = {"reduce_l1_norm": ("abs",), "reduce_l2_norm": ("abs",), "reduce_log_sum": ("log",),
             "reduce_sum_square": ("square",)}.get(op, ())
    for function in alone:
        x = step.add("log", x=x, epsilon=0.0) if function == "log" else step.add_real(function, x=x)
    return x


def _product(step: OnnxStep) -> Operand:
    x = step.number(0)
    axes = _over(step, x.type.rank, 18)
    return step.add("reduce_prod", x=x, axes=axes, keep_dims=bool(step.integer("keepdims", 1))) if axes else x


def _extreme_position(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        x = step.cast(step.number(0), "fp16")
        axis, keep = step.front(step.integer("axis", 0), x.type.rank), bool(step.integer("keepdims", 1))
        if not step.integer("select_last_index", 0):
            return step.add(op, x=x, axis=axis, keep_dims=keep)
        turned = step.add("reverse", part="turned", x=x, axes=[axis])
        place = step.add(op, part="place", x=turned, axis=axis, keep_dims=keep)
        return step.add_real("sub", x=step.builder.constant(np.float16(x.shape[axis] - 1)), y=place)
    return handler


def _hard_max(step: OnnxStep) -> Operand:
    """One where the first largest element is. Before opset 13 all dimensions from `axis` on are one."""
    x = step.value(0)
    axis = step.front(step.integer("axis", -1 if step.version >= 13 else 1), x.type.rank)
    rows = x
    if step.version < 13:
        rows = step.add("reshape", part="rows", x=x, shape=(prod(x.shape[:axis]), prod(x.shape[axis:])))
        axis = 1
    (extent,) = bounded(step, (rows.shape[axis],))
    place = step.add("reduce_argmax", part="place", x=rows, axis=axis, keep_dims=True)
    numbers = np.arange(extent, dtype=np.int32).reshape([extent if d == axis else 1 for d in range(rows.type.rank)])
    chosen = step.cast(step.add("equal", part="chosen", x=place, y=numbers), "fp16")
    return chosen if rows is x else step.add("reshape", x=chosen, shape=x.shape)


def _softmax(step: OnnxStep) -> Operand:
    return _coerced(step, lambda x, axis: step.add("softmax", x=x, axis=axis))


def _log_softmax(step: OnnxStep) -> Operand:
    return _coerced(step, lambda x, axis: log_softmax(step, x, axis))


def _coerced(step: OnnxStep, made: Callable[[Value, int], Value]) -> Operand:
    """Before opset 13 softmax runs over all dimensions from `axis` on as if they were one."""
    x = step.value(0)
    axis = step.front(step.integer("axis", -1 if step.version >= 13 else 1), x.type.rank)
    tail = x.shape[axis:]
    if step.version >= 13 or prod(tail) == x.shape[axis]:
        return made(x, axis)
    if sum(extent > 1 for extent in tail) == 1:
        return made(x, axis + max(range(len(tail)), key=lambda place: tail[place]))
    rows = step.add("reshape", part="rows", x=x, shape=(prod(x.shape[:axis]), prod(tail)))
    return step.add("reshape", x=made(rows, 1), shape=x.shape)


def _top_k(step: OnnxStep) -> Result:
    x = step.number(0)
    axis = step.front(step.integer("axis", -1), x.type.rank)
    count = step.integer("k", 1) if step.version < 10 else int(step.number_in(1, "k"))
    found = step.add_all("topk", x=step.cast(x, "fp16"), k=count, axis=axis,
                         ascending=not step.integer("largest", 1))
    return (step.cast(found[0], x.dtype), found[1])


def _running(step: OnnxStep) -> tuple[Value, int]:
    x = step.number(0)
    return x, step.front(int(step.number_in(1, "axis")), x.type.rank)


def _cumulative_sum(step: OnnxStep) -> Operand:
    x, axis = _running(step)
    result = step.add("cumsum", x=step.cast(x, "fp16"), axis=axis, exclusive=bool(step.integer("exclusive", 0)),
                      reverse=bool(step.integer("reverse", 0)))
    return step.cast(result, x.dtype)


def _cumulative_product(step: OnnxStep) -> Operand:
    """Element after element."""
    x, axis = _running(step)
    count = x.shape[axis]
    if count > MOST_STEPS:
        raise UnsupportedError(step.label, "the axis is multiplied one element after the other", limit=MOST_STEPS,
                               found=count, remedy="shorten the axis")
    parts = [part_of(step, x, axis, place, place + 1, "at") for place in range(count)]
    if step.integer("reverse", 0):
        parts.reverse()
    ones = step.add_real("add", part="ones", x=step.add_real("mul", part="none", x=parts[0], y=0), y=1)
    found = [ones if step.integer("exclusive", 0) else parts[0]]
    for part in parts[:-1] if step.integer("exclusive", 0) else parts[1:]:
        found.append(step.add_real("mul", part="product", x=found[-1], y=part))
    if step.integer("reverse", 0):
        found.reverse()
    return found[0] if count == 1 else step.add("concat", values=tuple(found), axis=axis)


OPERATORS: Mapping[str, Handler] = {
    "ArgMax": _extreme_position("reduce_argmax"), "ArgMin": _extreme_position("reduce_argmin"),
    "CumProd": _cumulative_product, "CumSum": _cumulative_sum, "Hardmax": _hard_max, "LogSoftmax": _log_softmax,
    "ReduceL1": _reduce("reduce_l1_norm"), "ReduceL2": _reduce("reduce_l2_norm"),
    "ReduceLogSum": _reduce("reduce_log_sum"), "ReduceLogSumExp": _reduce("reduce_log_sum_exp"),
    "ReduceMax": _reduce("reduce_max"), "ReduceMean": _reduce("reduce_mean"), "ReduceMin": _reduce("reduce_min"),
    "ReduceProd": _product, "ReduceSum": _reduce("reduce_sum", 13), "ReduceSumSquare": _reduce("reduce_sum_square"),
    "Softmax": _softmax, "TopK": _top_k,
}
