"""Functions of one tensor, element by element: activations, roots, exponentials, rounding.

`FUNCTIONS` gives each as a function of float64 arrays and its parameters; the references and the tables the compiler
fits both come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops import functions as special
from openane.ops.activation import lower_unary, post_stage
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

GELU_MODES = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")

Function = Callable[..., np.ndarray]


def _scalar(name: str, default: float | None = None) -> Parameter:
    return Parameter(name, const=True) if default is None else Parameter(name, const=True, default=default)


ALPHA, BETA = _scalar("alpha"), _scalar("beta")
MODE = Parameter("mode", const=True, default="EXACT", kind="string")

FUNCTIONS: Mapping[str, Function] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "clip": lambda x, alpha, beta: np.minimum(np.maximum(x, alpha), beta),
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "erf": special.erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "floor": np.floor,
    "gelu": special.gelu,
    "inverse": lambda x, epsilon: 1 / (x + epsilon),
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "log": lambda x, epsilon: np.log(x + epsilon),
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "round": np.rint,
    "rsqrt": lambda x, epsilon: 1 / np.sqrt(x + epsilon),
    "scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
    "sigmoid": special.sigmoid,
    "sigmoid_hard": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "sign": np.sign,
    "silu": lambda x: x * special.sigmoid(x),
    "softplus": special.softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tanh": np.tanh,
}

PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "clip": (ALPHA, BETA),
    "elu": (ALPHA,),
    "gelu": (MODE,),
    "inverse": (_scalar("epsilon", 1e-4),),
    "leaky_relu": (ALPHA,),
    "log": (_scalar("epsilon", 1e-45),),
    "rsqrt": (_scalar("epsilon", 1e-12),),
    "scaled_tanh": (ALPHA, BETA),
    "sigmoid_hard": (ALPHA, BETA),
}

INTEGERS = frozenset({"abs", "exp2", "sign", "square"})
"""Functions MIL also defines on int32."""


def _infer(operands: Mapping[str, Operand], *, name: str, parameters: Sequence[Parameter]) -> tuple[TensorType, ...]:
    arguments = Arguments(name, parameters, operands)
    x = arguments.tensor("x", (*FLOATS, "int32") if name in INTEGERS else FLOATS)
    values = {parameter.name: _setting(arguments, parameter) for parameter in parameters[1:]}
    if name == "clip" and values["alpha"] > values["beta"]:
        raise refusal(name, "alpha", f"must not exceed beta = {values['beta']}", values["alpha"])
    return (x.type,)


def _setting(arguments: Arguments, parameter: Parameter) -> Any:
    if parameter.kind == "string":
        return arguments.text(parameter.name, GELU_MODES)
    return arguments.number(parameter.name)


def _reference(*, function: Function, x: np.ndarray, **settings: Any) -> tuple[np.ndarray, ...]:
    return (np.asarray(function(x.astype(np.float64), **settings)).astype(x.dtype),)


def _op(name: str, function: Function) -> Op:
    parameters = (Parameter("x"), *PARAMETERS.get(name, ()))
    return Op(name, parameters, partial(_infer, name=name, parameters=parameters),
              partial(_reference, function=function), rules=ENGINE, lower=partial(lower_unary, parameters=parameters),
              post=partial(post_stage, parameters=parameters))


OPS = tuple(_op(name, function) for name, function in FUNCTIONS.items())
