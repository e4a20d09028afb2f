"""Operators that formats have and MIL has not, as several of its operations: written once for all importers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.step import ImportStep
from openane.ops.written_functions import HARD

GELU_MODES = {"none": "EXACT", "tanh": "TANH_APPROXIMATION"}
"""MIL's mode of gelu by the name ONNX and PyTorch give the approximation."""

Adding = Callable[..., Value]
"""How a node is added: Step.add, or what a format puts in its place."""


def hard_sigmoid(step: ImportStep, x: Value, part: str = "") -> Value:
    """clip(x / 6 + 1/2, 0, 1)."""
    return step.add("sigmoid_hard", part, x=x, **HARD)


def hard_swish(step: ImportStep, x: Value) -> Value:
    """x * clip(x / 6 + 1/2, 0, 1)."""
    return step.add("mul", x=x, y=hard_sigmoid(step, x, "gate"))


def swish(step: ImportStep, x: Value, slope: float) -> Value:
    """x * sigmoid(slope * x)."""
    if slope == 1:
        return step.add("silu", x=x)
    return step.add("mul", x=x, y=step.add("sigmoid", "gate", x=step.add("mul", "scaled", x=x, y=slope)))


def mish(step: ImportStep, x: Value) -> Value:
    """x * tanh(log(1 + e^x))."""
    return step.add("mul", x=x, y=step.add("tanh", "gate", x=step.add("softplus", "plus", x=x)))


def scaled_elu(step: ImportStep, x: Value, alpha: float, scale: float = 1.0, slope: float = 1.0) -> Value:
    """scale * elu(slope * x): celu, selu and elu."""
    inner = x if slope == 1 else step.add("mul", "scaled", x=x, y=slope)
    if scale == 1:
        return step.add("elu", x=inner, alpha=alpha)
    return step.add("mul", x=step.add("elu", "inner", x=inner, alpha=alpha), y=scale)


def clipped(step: ImportStep, x: Value, low: float, high: float) -> Value:
    """x within low..high (low <= high), either of which may be infinite: itself, relu, relu6, an extreme or clip."""
    if low == -np.inf and high == np.inf:
        return x
    if (low, high) in ((0.0, 6.0), (0.0, np.inf)):
        return step.add("relu6" if high == 6 else "relu", x=x)
    if high == np.inf:
        return step.add("maximum", x=x, y=low)
    if low == -np.inf:
        return step.add("minimum", x=x, y=high)
    return step.add("clip", x=x, alpha=low, beta=high)


def power(step: ImportStep, x: Value, exponent: float) -> Value | None:
    """x^exponent where that is x, its square or its root; None for other exponents."""
    if exponent == 1:
        return x
    op = {2.0: "square", 0.5: "sqrt"}.get(exponent)
    return None if op is None else step.add(op, x=x)


def chained(step: ImportStep, op: str, values: Sequence[Value], add: Adding | None = None, last: str = "") -> Value:
    """One operation of two operands over many, from left to right; the result of all is called `last`."""
    adding, result = add or step.add, values[0]
    for index, value in enumerate(values[1:], start=1):
        result = adding(op, part=last if index == len(values) - 1 else str(index), x=result, y=value)
    return result


def mean_of(step: ImportStep, values: Sequence[Value], add: Adding | None = None) -> Value:
    """The mean of tensors, element by element."""
    total = chained(step, "add", values, add, "sum")
    return step.add("mul", x=total, y=1 / len(values))


def log_softmax(step: ImportStep, x: Value, axis: int) -> Value:
    """x - max - log(sum(exp(x - max))): small probabilities keep their logarithm."""
    largest = step.add("reduce_max", "max", x=x, axes=[axis], keep_dims=True)
    below = step.add("sub", "below", x=x, y=largest)
    total = step.add("reduce_sum", "sum", x=step.add("exp", "exp", x=below), axes=[axis], keep_dims=True)
    return step.add("sub", x=below, y=step.add("log", "log", x=total, epsilon=0.0))


def scaled(step: ImportStep, x: Value, gain: Any, offset: Any) -> Value:
    """x * gain + offset, shapes broadcast; None for what is left out."""
    if gain is not None:
        x = step.add("mul", "scaled", x=x, y=gain)
    return x if offset is None else step.add("add", x=x, y=offset)


def log_base_two(step: ImportStep, x: Value) -> Value:
    """The logarithm to base 2."""
    return step.add("mul", x=step.add("log", "log", x=x), y=np.float16(1 / np.log(2)))


def inverse_hyperbolic_sine(step: ImportStep, x: Value) -> Value:
    """sign(x) * log(|x| + sqrt(x^2 + 1)): for magnitudes no difference cancels."""
    size = step.add("abs", part="size", x=x)
    return step.add("mul", x=_log_of_root(step, size, 1.0), y=step.add("sign", part="sign", x=x))


def inverse_hyperbolic_cosine(step: ImportStep, x: Value) -> Value:
    """log(x + sqrt(x^2 - 1))."""
    return _log_of_root(step, x, -1.0)


def _log_of_root(step: ImportStep, x: Value, offset: float) -> Value:
    """log(x + sqrt(x^2 + offset)); above 200 the root is x, whose square would leave fp16."""
    near = step.add("minimum", part="near", x=x, y=200.0)
    root = step.add("sqrt", part="root", x=step.add("add", part="shifted", x=step.add("square", part="square", x=near),
                                                    y=offset))
    longest = step.add("maximum", part="longest", x=x, y=root)
    return step.add("log", part="log", x=step.add("add", part="sum", x=x, y=longest if offset > 0 else root),
                    epsilon=0.0)


def arc_tangent_of(step: ImportStep, y: Value, x: Value) -> Value:
    """atan2(y, x), of the smaller magnitude over the larger, so that no quotient overflows; 0 where both are 0."""
    across, along = (step.add("abs", f"{name}_size", x=value) for name, value in (("y", y), ("x", x)))
    longer = step.add("maximum", "longer", x=across, y=along)
    divisor = step.add("select", "divisor", cond=step.add("equal", "none", x=longer, y=0.0), a=np.float16(1), b=longer)
    ratio = step.add("real_div", "ratio", x=step.add("minimum", "shorter", x=across, y=along), y=divisor)
    angle = step.add("atan", "angle", x=ratio)
    steep = step.add("greater", "steep", x=across, y=along)
    first = step.add("select", "first", cond=steep, a=step.add("sub", "turned", x=np.pi / 2, y=angle), b=angle)
    behind = step.add("select", "behind", cond=step.add("less", "left", x=x, y=0.0),
                      a=step.add("sub", "mirrored", x=np.pi, y=first), b=first)
    return step.add("select", cond=step.add("less", "below", x=y, y=0.0),
                    a=step.add("mul", "negative", x=behind, y=-1.0), b=behind)


def part_of(step: ImportStep, x: Value, axis: int, begin: int, end: int, part: str = "range") -> Value:
    """Elements begin..end of one axis."""
    rank = range(x.type.rank)
    return step.add("slice_by_index", part, x=x, begin=[begin if at == axis else 0 for at in rank],
                    end=[end if at == axis else x.shape[at] for at in rank])


def running(step: ImportStep, x: Value, axis: int, combine: Adding) -> Value:
    """What all elements up to each along an axis are together, by a function of two tensors in which brackets do not
    matter: of twice as many elements in each round, so that 1000 of them take ten rounds."""
    extent, reach = x.shape[axis], 1
    while reach < extent:
        kept = part_of(step, x, axis, 0, reach, f"first{reach}")
        later = part_of(step, x, axis, reach, extent, f"later{reach}")
        earlier = part_of(step, x, axis, 0, extent - reach, f"earlier{reach}")
        x = step.add("concat", f"up_to{reach}", values=(kept, combine(earlier, later, f"together{reach}")), axis=axis)
        reach *= 2
    return x


def diagonal(step: ImportStep, x: Value, axes: tuple[int, int], count: int, offset: int = 0) -> Value:
    """`count` elements whose positions on two axes differ by `offset`, as the last axis: every so many of the two in a
    row."""
    first, second = axes
    width = x.shape[second]
    others = [axis for axis in range(x.type.rank) if axis not in axes]
    order = [*others, first, second]
    last = x if order == sorted(order) else step.add("transpose", "last", x=x, perm=order)
    rows = step.reshaped(last, (*(x.shape[axis] for axis in others), x.shape[first] * width), "rows")
    start = max(offset, 0) + max(-offset, 0) * width
    places = np.arange(count, dtype=np.int32) * (width + 1) + start
    return step.add("gather", x=rows, indices=places, axis=len(others))


def rounded_away(step: ImportStep, x: Value) -> Value:
    """The nearest whole number, of two the one farther from 0."""
    size = step.add("abs", "size", x=x)
    whole = step.add("floor", "whole", x=size)
    up = step.add("greater_equal", "up", x=step.add("sub", "rest", x=size, y=whole), y=0.5)
    near = step.add("add", "near", x=whole, y=step.cast(up, "fp16", "one"))
    return step.add("mul", x=near, y=step.add("sign", "sign", x=x))
