"""ONNX operators that work element by element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.constants import LARGEST_HALF
from openane.importers.onnx.dtypes import ENGINE_NAMES, dtype_name
from openane.importers.onnx.step import Handler, Operand, Step


def _unary(op: str, **operands: Any) -> Handler:
    """An operator that is one MIL operation with fixed settings."""
    def handler(step: Step) -> Operand:
        return step.add(op, x=step.value(0), **operands)
    return handler


def _scaled(op: str, **attributes: tuple[str, float]) -> Handler:
    """An operator that is one MIL operation; `operand=(attribute, default)`."""
    def handler(step: Step) -> Operand:
        settings: dict[str, Any] = {key: step.number(name, default) for key, (name, default) in attributes.items()}
        return step.add(op, x=step.value(0), **settings)
    return handler


def _binary(op: str) -> Handler:
    def handler(step: Step) -> Operand:
        if step.version < 7 and step.integer("broadcast", 0):
            raise step.refuse("broadcast", 1, "opset 7 or later: onnx.version_converter.convert_version(model, 13)")
        x, y = step.value(0), step.value(1)
        if op == "real_div" and x.dtype == "int32":
            raise UnsupportedError(step.label, "integers cannot be divided", found=f"{x.type}",
                                   remedy="cast both to float, divide, and cast back")
        return step.add(op, x=x, y=y)
    return handler


def _variadic(op: str) -> Handler:
    def handler(step: Step) -> Operand:
        result = step.value(0)
        for index in range(1, len(step.inputs)):
            last = index == len(step.inputs) - 1
            result = step.add(op, part="" if last else str(index), x=result, y=step.value(index))
        return result
    return handler


def _power(step: Step) -> Operand:
    x, exponent = step.value(0), step.operand(1)
    if isinstance(exponent, Value):
        return step.add("pow", x=x, y=exponent)
    if exponent.size == 1 and exponent.ndim <= x.type.rank:
        simple = {1.0: None, 2.0: "square", 0.5: "sqrt"}
        number = float(exponent.reshape(()))
        if number in simple and x.dtype == "fp16":
            op = simple[number]
            return x if op is None else step.add(op, x=x)
    return step.add("pow", x=x, y=step.half(exponent, 1) if x.dtype == "fp16" else exponent)


def _negate(step: Step) -> Operand:
    return step.add("mul", x=step.value(0), y=-1)


def _parametric_relu(step: Step) -> Operand:
    x, slope = step.value(0), step.array(1, "slope")
    if slope.size and (slope == slope.reshape(-1)[0]).all():
        return step.add("leaky_relu", x=x, alpha=float(step.half(slope, 1).reshape(-1)[0]))
    below = step.add("minimum", part="below", x=x, y=0.0)
    scaled = step.add("mul", part="scaled", x=below, y=step.half(slope, 1))
    above = step.add("relu", part="above", x=x)
    return step.add("add", x=above, y=scaled)


def _clip(step: Step) -> Operand:
    x = step.value(0)
    low, high = _bound(step, 1, "min", -np.inf), _bound(step, 2, "max", np.inf)
    if low > high:
        return step.add("minimum", x=step.add("maximum", part="low", x=x, y=low), y=high)
    if low == -np.inf and high == np.inf:
        return x
    if (low, high) in ((0.0, 6.0), (0.0, np.inf)):
        return step.add("relu6" if high == 6 else "relu", x=x)
    if high == np.inf:
        return step.add("maximum", x=x, y=low)
    if low == -np.inf:
        return step.add("minimum", x=x, y=high)
    return step.add("clip", x=x, alpha=low, beta=high)


def _bound(step: Step, index: int, name: str, missing: float) -> float:
    """A bound of Clip; bounds fp16 cannot reach bound nothing."""
    if step.version < 11:
        bound = step.number(name, missing)
    else:
        bound = step.number_in(index, name) if step.has(index) else missing
    return bound if abs(bound) <= LARGEST_HALF or np.sign(bound) != np.sign(missing) else missing


def _gelu(step: Step) -> Operand:
    modes = {"none": "EXACT", "tanh": "TANH_APPROXIMATION"}
    approximate = step.text("approximate", "none")
    if approximate not in modes:
        raise step.refuse("approximate", approximate, f"one of {', '.join(modes)}")
    return step.add("gelu", x=step.value(0), mode=modes[approximate])


def _hard_swish(step: Step) -> Operand:
    x = step.value(0)
    gate = step.add("sigmoid_hard", part="gate", x=x, alpha=1 / 6, beta=0.5)
    return step.add("mul", x=x, y=gate)


def _cast(step: Step) -> Operand:
    x = step.value(0)
    wanted = ENGINE_NAMES[dtype_name(step.integer("to", 0), step.label)]
    return x if x.dtype == wanted else step.add("cast", x=x, dtype=wanted)


def _identity(step: Step) -> Operand:
    if not step.inputs:
        raise GraphError(f"{step.label}: input 0 is missing")
    return step.operand(0)


def _dropout(step: Step) -> Operand:
    step.only_output("mask")
    if step.version >= 12 and step.has(2) and step.array(2, "training_mode").any():
        raise step.refuse("training_mode", True, "export the model for inference (model.eval())")
    return step.operand(0)


OPERATORS: Mapping[str, Handler] = {
    "Abs": _unary("abs"), "Add": _binary("add"), "Cast": _cast, "Ceil": _unary("ceil"), "Clip": _clip,
    "Div": _binary("real_div"), "Dropout": _dropout, "Elu": _scaled("elu", alpha=("alpha", 1.0)), "Erf": _unary("erf"),
    "Exp": _unary("exp"), "Floor": _unary("floor"), "Gelu": _gelu,
    "HardSigmoid": _scaled("sigmoid_hard", alpha=("alpha", 0.2), beta=("beta", 0.5)), "HardSwish": _hard_swish,
    "Identity": _identity, "LeakyRelu": _scaled("leaky_relu", alpha=("alpha", 0.01)), "Log": _unary("log", epsilon=0.0),
    "Max": _variadic("maximum"), "Min": _variadic("minimum"), "Mul": _binary("mul"), "Neg": _negate, "Pow": _power,
    "PRelu": _parametric_relu, "Reciprocal": _unary("inverse", epsilon=0.0), "Relu": _unary("relu"),
    "Round": _unary("round"), "Sigmoid": _unary("sigmoid"), "Sign": _unary("sign"), "Softplus": _unary("softplus"),
    "Softsign": _unary("softsign"), "Sqrt": _unary("sqrt"), "Sub": _binary("sub"), "Sum": _variadic("add"),
    "Tanh": _unary("tanh"),
}
