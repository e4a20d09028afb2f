"""Functions of one tensor, element by element: activations, roots, exponentials, rounding.

`FUNCTIONS` gives each as a function of float64 arrays and its parameters; the references and the tables the compiler
fits both come from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import functions as special
from openane.ops.activation import lower_unary, post_stage
from openane.ops.halves import LARGEST, half
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.rules import ENGINE, MOVED
from openane.ops.spec import Evidence, Op, Parameter
from openane.ops.unary_gradients import unary_gradient

GELU_MODES = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")

Function = Callable[..., np.ndarray]


def _scalar(name: str, default: float | None = None) -> Parameter:
    return Parameter(name, const=True) if default is None else Parameter(name, const=True, default=default)


ALPHA, BETA = _scalar("alpha"), _scalar("beta")
MODE = Parameter("mode", const=True, default="EXACT", kind="string")

FUNCTIONS: Mapping[str, Function] = {
    "abs": np.abs,
    "acos": np.arccos,
    "asin": np.arcsin,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "clamped_relu": lambda x, alpha, beta: np.minimum(np.where(x >= 0, x, alpha * x), beta),
    "clip": lambda x, alpha, beta: np.minimum(np.maximum(x, alpha), beta),
    "cos": np.cos,
    "cosh": np.cosh,
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),
    "erf": special.erf,
    "exp": np.exp,
    "exp2": np.exp2,
    "floor": np.floor,
    "gelu": special.gelu,
    "inverse": lambda x, epsilon: 1 / (x + epsilon),
    "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
    "linear_activation": lambda x, alpha, beta: alpha * x + beta,
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
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": special.softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "threshold": lambda x, alpha: np.maximum(x, alpha),
    "thresholded_relu": lambda x, alpha: np.where(x < alpha, 0, x),
}

PARAMETERS: Mapping[str, tuple[Parameter, ...]] = {
    "clamped_relu": (ALPHA, BETA),
    "clip": (ALPHA, BETA),
    "elu": (ALPHA,),
    "gelu": (MODE,),
    "inverse": (_scalar("epsilon", 1e-4),),
    "leaky_relu": (ALPHA,),
    "linear_activation": (ALPHA, _scalar("beta", 0.0)),
    "log": (_scalar("epsilon", 1e-45),),
    "rsqrt": (_scalar("epsilon", 1e-12),),
    "scaled_tanh": (ALPHA, BETA),
    "sigmoid_hard": (ALPHA, BETA),
    "threshold": (ALPHA,),
    "thresholded_relu": (ALPHA,),
}

INTEGERS = frozenset({"abs", "exp2", "sign", "square"})
"""Functions MIL also defines on int32."""
KEPT = frozenset({"abs", "sign"})
"""Those whose results fp16 can hold wherever it holds the operand."""


def engine_integers(node: Node, limits: Limits) -> bool:
    """Integers are held as fp16, exact from -2048 to 2048; abs and sign stay within that, exp2 and square need not."""
    return node["x"].dtype != "int32" or node.op in KEPT


UNBOUNDED = frozenset({("clip", "alpha"), ("clip", "beta"), ("threshold", "alpha"), ("thresholded_relu", "alpha"),
                       ("clamped_relu", "beta")})
"""Constants that may be infinite: what lies beyond fp16 is then never reached."""


def engine_constants(node: Node, limits: Limits) -> bool:
    """The constants of the function must be finite in fp16: from -65504 to 65504."""
    numbers = [float(value.array()) for name, value in node.operands.items()
               if isinstance(value, Value) and value.constant and value.dtype != "string" and name != "x"
               and (node.op, name) not in UNBOUNDED]
    return all(abs(half(number)) <= LARGEST for number in numbers)


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


APPLE = ("abs", "exp", "exp2", "gelu", "leaky_relu", "relu", "relu6", "sigmoid", "sign", "silu", "sqrt",
         "square", "tanh")
"""Apple's compiler makes the same engine operations of these; gelu's and silu's tables hold other knots."""


def _op(name: str, function: Function) -> Op:
    parameters = (Parameter("x"), *PARAMETERS.get(name, ()))
    rules = (engine_integers, *MOVED) if name in INTEGERS else (engine_constants, *ENGINE)
    return Op(name, parameters, partial(_infer, name=name, parameters=parameters),
              partial(_reference, function=function), rules=rules, lower=partial(lower_unary, parameters=parameters),
              post=partial(post_stage, parameters=parameters),
              evidence=Evidence.APPLE if name in APPLE else Evidence.COMPOSED,
              gradient=unary_gradient(name, parameters))


OPS = tuple(_op(name, function) for name, function in FUNCTIONS.items())
