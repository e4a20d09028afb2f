"""ONNX activations and functions of one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openane.importers.composites import (
    GELU_MODES,
    hard_swish,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_sine,
    mish,
    scaled_elu,
    swish,
)
from openane.importers.onnx.operators.elementwise import unary
from openane.importers.onnx.step import Handler, OnnxStep, Operand

SELU = (1.67326319217681884765625, 1.05070102214813232421875)
"""alpha and gamma of Selu, as ONNX states them."""


def _scaled(op: str, **attributes: tuple[str, float]) -> Handler:
    """An operator that is one MIL operation; `operand=(attribute, default)`."""
    def handler(step: OnnxStep) -> Operand:
        settings: dict[str, Any] = {key: step.real_attribute(name, default)
                                    for key, (name, default) in attributes.items()}
        return step.add(op, x=step.value(0), **settings)
    return handler


def _gelu(step: OnnxStep) -> Operand:
    approximate = step.text("approximate", "none")
    if approximate not in GELU_MODES:
        raise step.refuse("approximate", approximate, f"one of {', '.join(GELU_MODES)}")
    return step.add("gelu", x=step.value(0), mode=GELU_MODES[approximate])


def _celu(step: OnnxStep) -> Operand:
    """alpha * elu(x / alpha)."""
    alpha = step.real_attribute("alpha", 1.0)
    return scaled_elu(step, step.value(0), 1.0, alpha, 1 / alpha)


def _selu(step: OnnxStep) -> Operand:
    alpha, gamma = step.real_attribute("alpha", SELU[0]), step.real_attribute("gamma", SELU[1])
    return scaled_elu(step, step.value(0), alpha, gamma)


def _thresholded_relu(step: OnnxStep) -> Operand:
    """x where it is above alpha: MIL's own operation includes alpha."""
    x, alpha = step.value(0), step.real_attribute("alpha", 1.0)
    above = step.add("greater", part="above", x=x, y=alpha)
    return step.add("select", cond=above, a=x, b=np.float16(0))


def _shrink(step: OnnxStep) -> Operand:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    x = step.number(0)
    bias, bound = (step.real_attribute(name, default) for name, default in (("bias", 0.0), ("lambd", 0.5)))
    real = step.cast(x, "fp16")
    below, above = (step.add(op, part=op, x=real, y=limit) for op, limit in (("less", -bound), ("greater", bound)))
    raised = step.add("select", part="raised", cond=below, a=step.add("add", part="up", x=real, y=bias),
                      b=np.float16(0))
    result = step.add("select", cond=above, a=step.add("add", part="down", x=real, y=-bias), b=raised)
    return step.cast(result, x.dtype)


def _parametric_relu(step: OnnxStep) -> Operand:
    x, slope = step.number(0), step.operand(1)
    real = step.cast(x, "fp16")
    if isinstance(slope, np.ndarray) and slope.size and (slope == slope.reshape(-1)[0]).all():
        result = step.add("leaky_relu", x=real, alpha=float(step.half(slope, 1).reshape(-1)[0]))
    else:
        below = step.add("minimum", part="below", x=real, y=0.0)
        scaled = step.add("mul", part="scaled", x=below, y=step.real(1))
        result = step.add("add", x=step.add("relu", part="above", x=real), y=scaled)
    return step.cast(result, x.dtype)


OPERATORS: Mapping[str, Handler] = {
    "Acos": unary("acos"), "Acosh": lambda step: inverse_hyperbolic_cosine(step, step.value(0)), "Asin": unary("asin"),
    "Asinh": lambda step: inverse_hyperbolic_sine(step, step.value(0)), "Atan": unary("atan"), "Atanh": unary("atanh"),
    "Celu": _celu,
    "Cos": unary("cos"), "Cosh": unary("cosh"), "Elu": _scaled("elu", alpha=("alpha", 1.0)), "Erf": unary("erf"),
    "Gelu": _gelu, "HardSigmoid": _scaled("sigmoid_hard", alpha=("alpha", 0.2), beta=("beta", 0.5)),
    "HardSwish": lambda step: hard_swish(step, step.value(0)),
    "LeakyRelu": _scaled("leaky_relu", alpha=("alpha", 0.01)), "Mish": lambda step: mish(step, step.value(0)),
    "PRelu": _parametric_relu, "Relu": unary("relu"), "Selu": _selu, "Shrink": _shrink, "Sigmoid": unary("sigmoid"),
    "Sin": unary("sin"), "Sinh": unary("sinh"), "Softplus": unary("softplus"), "Softsign": unary("softsign"),
    "Swish": lambda step: swish(step, step.value(0), step.real_attribute("alpha", 1.0)), "Tan": unary("tan"),
    "Tanh": unary("tanh"), "ThresholdedRelu": _thresholded_relu,
}
