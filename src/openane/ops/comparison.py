"""Comparisons of two tensors, shapes broadcast: equal, not_equal, greater, greater_equal, less, less_equal.

On the engine: the difference, then a table of three constants. Finite fp16 numbers are compared exactly, subnormals
included: the difference of two different ones never rounds to 0, and one that overflows keeps its sign. Infinities of
one sign are equal. The engine reads NaN as +inf, so that NaN equals +inf and itself there. Integers are held as fp16:
exact from -2048 to 2048.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops import tables
from openane.ops.broadcast import broadcast_shape
from openane.ops.fewer import elementwise
from openane.ops.gradients import stopped
from openane.ops.halves import half
from openane.ops.lowering import Lowering
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Op, Parameter
from openane.ops.stages import Stages

PARAMETERS = (Parameter("x"), Parameter("y"))

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
Answers = tuple[float, float, float]
"""The result where x < y, x = y and x > y."""

COMPARISONS: Mapping[str, tuple[Function, Answers]] = {
    "equal": (np.equal, (0.0, 1.0, 0.0)),
    "not_equal": (np.not_equal, (1.0, 0.0, 1.0)),
    "greater": (np.greater, (0.0, 0.0, 1.0)),
    "greater_equal": (np.greater_equal, (0.0, 1.0, 1.0)),
    "less": (np.less, (1.0, 0.0, 0.0)),
    "less_equal": (np.less_equal, (1.0, 1.0, 0.0)),
}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS)
    y = arguments.tensor("y", (x.dtype,))
    return (TensorType("bool", broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Function, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x, y)),)


def _lower(node: Node, lowering: Lowering, *, answers: Answers) -> None:
    """A constant is the bias of the difference, and none is needed for 0."""
    target = lowering.result(node.output)
    stages = Stages(lowering, target.shape)
    x, y = node["x"], node["y"]
    if _scalar(x) is not None and _scalar(y) is None:
        x, y, answers = y, x, (answers[2], answers[1], answers[0])
    constant = _scalar(y)
    source = lowering.read(x)
    if constant is not None and source.shape == target.shape:
        difference = source if constant == 0 else stages.planar(source, bias=-constant)
    else:
        difference = stages.planar(source, lowering.read(y), subtract=True)
    stages.table(difference, tables.step(*answers), target=target)


def _scalar(value: Value) -> float | None:
    """The fp16 number of a constant of one element; None where it is something else or not finite."""
    if not value.constant or value.type.elements != 1:
        return None
    number = half(float(value.array().reshape(())))
    return number if math.isfinite(number) else None


def _op(name: str, function: Function, answers: Answers) -> Op:
    return Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function), rules=MOVED,
              lower=partial(_lower, answers=answers), gradient=stopped, fewer=elementwise)


OPS = tuple(_op(name, *described) for name, described in COMPARISONS.items())
