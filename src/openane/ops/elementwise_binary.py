"""Arithmetic of two tensors, element by element, shapes broadcast: add, sub, mul, real_div, maximum, minimum, pow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.arithmetic import lower_binary, scale_stage
from openane.ops.broadcast import broadcast_shape
from openane.ops.operands import FLOATS, NUMBERS, Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Evidence, Op, Parameter

PARAMETERS = (Parameter("x"), Parameter("y"))

Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _infer(operands: Mapping[str, Operand], *, name: str, dtypes: Sequence[str]) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", dtypes)
    y = arguments.tensor("y", (x.dtype,))
    return (TensorType(x.dtype, broadcast_shape(name, "y", x.shape, y.shape)),)


def _reference(*, function: Function, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x, y)),)


def _op(name: str, function: Function, dtypes: Sequence[str] = NUMBERS) -> Op:
    return Op(name, PARAMETERS, partial(_infer, name=name, dtypes=dtypes), partial(_reference, function=function),
              rules=ENGINE, lower=lower_binary, post=scale_stage if name == "mul" else None,
              evidence=Evidence.APPLE)


OPS = (
    _op("add", np.add),
    _op("sub", np.subtract),
    _op("mul", np.multiply),
    _op("real_div", np.divide, FLOATS),
    _op("maximum", np.maximum),
    _op("minimum", np.minimum),
    _op("pow", np.power, FLOATS),
)
