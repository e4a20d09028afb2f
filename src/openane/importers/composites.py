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
