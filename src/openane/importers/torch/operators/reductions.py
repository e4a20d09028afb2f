"""PyTorch operators over whole axes: sums, extremes, positions, softmax, sorting."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, prod

import numpy as np

from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep


def _axes(step: TorchStep, x: Value) -> list[int]:
    """The axes an operator works over; all of them where it states none."""
    return [axis % x.type.rank for axis in step.integers("dim")] or list(range(x.type.rank))


def _reduced(step: TorchStep, op: str, x: Value, axes: list[int], part: str = "") -> Value:
    keep = bool(step.argument("keepdim", False))
    if keep or len(axes) < x.type.rank:
        return step.add(op, part=part, x=x, axes=axes, keep_dims=keep)
    kept = step.add(op, part="kept", x=x, axes=axes, keep_dims=True)  # to a scalar, in the rank the engine knows
    return step.reshaped(kept, (), part)


def _reduction(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        x = step.matched(step.value("self"), step.kind)
        return _reduced(step, op, x, _axes(step, x))
    return handler


def _truth(op: str) -> Handler:
    """Whether any element, or every one, is true (or not 0)."""
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        if x.dtype != "bool":
            x = step.add("not_equal", part="true", x=x, y=0.0 if x.dtype == "fp16" else np.int32(0))
        number = step.cast(x, "fp16", "number")
        return step.cast(_reduced(step, op, number, _axes(step, x), "found"), "bool", "")
    return handler


def _extreme(op: str, position: str) -> Handler:
    """Values and positions along one axis."""
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        if not step.given("dim"):
            return _reduced(step, op, x, list(range(x.type.rank)))
        axis, keep = step.axis("dim", x.type.rank), bool(step.argument("keepdim", False))
        index = step.add(position, part="index", x=x, axis=axis, keep_dims=keep)
        step.constants.places.add(index.name)
        return step.add(op, x=x, axes=[axis], keep_dims=keep), index
    return handler


def _position(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        if not step.given("dim"):
            flat = step.reshaped(x, (prod(x.shape),), "flat")
            return step.reshaped(step.add(op, part="kept", x=flat, axis=0, keep_dims=True), step.shape)
        return step.add(op, x=x, axis=step.axis("dim", x.type.rank), keep_dims=bool(step.argument("keepdim", False)))
    return handler


def _variance(step: TorchStep) -> Result:
    """Mean of the squared deviations, over the elements less `correction`; `var_mean` gives the mean as well."""
    x = step.number("self")
    axes = _axes(step, x)
    mean = step.add("reduce_mean", part="mean", x=x, axes=axes, keep_dims=True)
    squares = step.add("square", part="squares", x=step.add("sub", part="deviation", x=x, y=mean))
    count = prod(x.shape[axis] for axis in axes)
    correction = step.argument("correction", 1)
    if count <= correction:
        raise step.refuse("correction", correction, f"less than the {count} elements")
    result = _reduced(step, "reduce_mean", squares, axes, "variance")
    if correction:
        result = step.add("mul", part="corrected", x=result, y=count / (count - correction))
    return (result, step.reshaped(mean, result.shape, "flat_mean")) if step.op == "var_mean" else result


def _norm(step: TorchStep) -> Result:
    x = step.number("self")
    return norm_of_order(step, x, float(step.argument("ord", 2)), _axes(step, x))


def norm_of_order(step: TorchStep, x: Value, order: float, axes: list[int]) -> Value:
    """The norm of any order: of others than 1, 2 and the infinite ones what each element is of the largest is raised
    to a power, so that no power overflows."""
    if order in (1.0, 2.0):
        return _reduced(step, f"reduce_l{int(order)}_norm", x, axes)
    size = step.add("abs", part="size", x=x)
    if abs(order) == inf:
        return _reduced(step, "reduce_max" if order > 0 else "reduce_min", size, axes)
    if order == 0:
        return _reduced(step, "reduce_sum", step.cast(step.add("not_equal", part="some", x=x, y=0.0), "fp16"), axes)
    if order < 0:
        raise step.refuse("ord", order, "0 or more, or -inf")
    largest = step.add("reduce_max", part="largest", x=size, axes=axes, keep_dims=True)
    none = step.add("equal", part="none", x=largest, y=0.0)
    divisor = step.add("select", part="divisor", cond=none, a=np.float16(1), b=largest)
    powers = step.add("pow", part="powers", x=step.add("real_div", part="share", x=size, y=divisor), y=order)
    total = step.add("reduce_sum", part="total", x=powers, axes=axes, keep_dims=True)
    length = step.add("mul", part="length", x=step.add("pow", part="root", x=total, y=1 / order), y=largest)
    return step.reshaped(length, step.shape)


def _softmax(step: TorchStep) -> Result:
    x = step.number("self")
    return step.add("softmax", x=x, axis=step.axis("dim", x.type.rank))


def _log_softmax(step: TorchStep) -> Result:
    x = step.number("self")
    axis = step.axis("dim", x.type.rank)
    total = step.add("reduce_log_sum_exp", part="total", x=x, axes=[axis], keep_dims=True)
    return step.add("sub", x=x, y=total)


def _cumulative(step: TorchStep) -> Result:
    x = step.number("self")
    return step.add("cumsum", x=x, axis=step.axis("dim", x.type.rank))


def _top(step: TorchStep) -> Result:
    x = step.value("self")
    found = step.add_all("topk", x=x, k=int(step.argument("k")), axis=step.axis("dim", x.type.rank, -1),
                         ascending=not step.argument("largest", True))
    step.constants.places.add(found[1].name)
    return found


def _sort(step: TorchStep) -> Result:
    """Values and positions; of the two, what is left unused goes."""
    x = step.value("self")
    if not x.type.rank:
        raise step.refuse("self", "a number", "at least one axis")
    axis, ascending = step.axis("dim", x.type.rank, -1), not step.argument("descending", False)
    values = step.add_all("topk", part="values", x=x, k=x.shape[axis], axis=axis, ascending=ascending)
    return values[0], step.add("argsort", x=x, axis=axis, ascending=ascending)


def _sort_positions(step: TorchStep) -> Result:
    x = step.value("self")
    return step.add("argsort", x=x, axis=step.axis("dim", x.type.rank, -1),
                    ascending=not step.argument("descending", False))


OPERATORS: Mapping[str, Handler] = {
    "_log_softmax": _log_softmax, "_softmax": _softmax, "all": _truth("reduce_min"), "amax": _reduction("reduce_max"),
    "amin": _reduction("reduce_min"), "any": _truth("reduce_max"), "argmax": _position("reduce_argmax"),
    "argmin": _position("reduce_argmin"), "argsort": _sort_positions, "cumsum": _cumulative,
    "linalg_vector_norm": _norm, "log_softmax": _log_softmax, "logsumexp": _reduction("reduce_log_sum_exp"),
    "max": _extreme("reduce_max", "reduce_argmax"), "mean": _reduction("reduce_mean"),
    "min": _extreme("reduce_min", "reduce_argmin"), "softmax": _softmax,
    "sort": _sort, "sum": _reduction("reduce_sum"), "topk": _top, "var": _variance, "var_mean": _variance,
}
