"""net.plist units that work element by element: Neuron, ElementWise, ScaledElementWise, GOC.

GOC is gain and offset control: (x + bias) * scale. Evidence: compilers that emit it write a hard sigmoid 0.2 x + 0.5
as bias 2.5, scale 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.composites import clipped, log_base_two
from openane.importers.entry import DictionaryEntry
from openane.importers.netplist.unit import Handler, Unit, channel_vector, check_count

PLAIN_NEURONS = {
    "ReLU": "relu", "Sigmoid": "sigmoid", "SigmoidHighPrecision": "sigmoid", "Tanh": "tanh", "Sqrt": "sqrt",
    "Exp2": "exp2", "Sign": "sign", "Sin": "sin", "Cos": "cos", "Ceil": "ceil", "Floor": "floor",
    "RoundNearest": "round", "Erf": "erf", "Swish": "silu", "Sqr": "square",
}
"""Neuron types without parameters, and the operations they are."""


def _clamp(unit: Unit) -> Value:
    low, high = unit.params.half("ReluMin", 0), unit.params.half("ReluMax")
    if low > high:
        raise GraphError(f"{unit.entry.label}: ReluMin must not exceed ReluMax; found {low:g} and {high:g}")
    return clipped(unit, unit.x, low, high)


def _leaky(unit: Unit) -> Value:
    if unit.params.half("ReluOffset", 0) != 0:
        raise unit.params.refuse("ReluOffset", unit.params.values["ReluOffset"], "ReluOffset 0")
    return unit.add("leaky_relu", x=unit.x, alpha=unit.params.half("ReluSlope"))


NEURONS: Mapping[str, tuple[tuple[str, ...], Callable[[Unit], Value]]] = {
    "GELU": ((), lambda unit: unit.add("gelu", x=unit.x, mode="EXACT")),
    "Rsqrt": ((), lambda unit: unit.add("rsqrt", x=unit.x, epsilon=0.0)),
    "Inv": ((), lambda unit: unit.add("inverse", x=unit.x, epsilon=0.0)),
    "Log2": ((), lambda unit: log_base_two(unit, unit.x)),
    "ELU": (("EluAlpha",), lambda unit: unit.add("elu", x=unit.x, alpha=unit.params.half("EluAlpha"))),
    "LeakyReLU": (("ReluSlope", "ReluOffset"), _leaky),
    "ClampedReLU": (("ReluMin", "ReluMax"), _clamp),
}
"""Neuron types with parameters, or that become more than one operation: their keys, and what they become."""


def neuron(unit: Unit) -> Value:
    """Neuron: a function of one operand, named by Params.Type."""
    kind = unit.params.choice("Type", {name: name for name in (*PLAIN_NEURONS, *NEURONS)})
    if kind in PLAIN_NEURONS:
        unit.params.only("Type")
        return unit.add(PLAIN_NEURONS[kind], x=unit.x)
    keys, build = NEURONS[kind]
    unit.params.only("Type", *keys)
    return build(unit)


BINARY = {"Add": "add", "Mult": "mul", "Sub": "sub", "Min": "minimum", "Max": "maximum"}
COMPARISONS = {"GreaterThan": "greater", "LessThan": "less", "Equal": "equal", "NotEqual": "not_equal"}


def element_wise(unit: Unit) -> Value:
    """ElementWise: Params.Type of two operands (Abs of one). Comparisons give 1 and 0."""
    unit.params.only("Type")
    kind = unit.params.choice("Type", {name: name for name in (*BINARY, *COMPARISONS, "Abs")})
    if kind == "Abs":
        return unit.add("abs", x=unit.x)
    x, y = unit.operands(2)
    if kind in BINARY:
        return unit.add(BINARY[kind], x=x, y=y)
    return unit.add("cast", x=unit.add(COMPARISONS[kind], "condition", x=x, y=y), dtype="fp16")


def scaled_element_wise(unit: Unit) -> Value:
    """ScaledElementWise: Params.Type of two operands, with Scale 1: what another scale multiplies is shown by no file
    at hand."""
    unit.params.only("Type", "Scale")
    if unit.params.half("Scale", 0x3C00) != 1:
        raise unit.params.refuse("Scale", unit.params.values["Scale"], "Scale 15360 (1.0), and a GOC unit for the rest")
    kinds = {name: name for name in BINARY if name != "Sub"}
    x, y = unit.operands(2)
    return unit.add(BINARY[unit.params.choice("Type", kinds)], x=x, y=y)


GROUP = "BiasScaleGroupData"
_GROUP_KEYS = ("Index", "Offset", "Count", "Type", "Mutable")


def goc_data(unit: Unit, params: DictionaryEntry, kind: str, channels: int) -> np.ndarray | None:
    """The GOC parameter `kind` ("Bias" or "Scale"): a scalar, one number per channel, or None where there is none."""
    params.only("BiasScalar", "ScaleScalar", GROUP)
    if f"{kind}Scalar" in params:
        return np.array(params.half(f"{kind}Scalar"), np.float16)
    group = params.section(GROUP, optional=True)
    group.only(*(f"{part}{key}" for part in ("Bias", "Scale") for key in _GROUP_KEYS))
    if not any(f"{kind}{key}" in group for key in _GROUP_KEYS):
        return None
    if group.flag(f"{kind}Mutable"):
        raise group.refuse(f"{kind}Mutable", True, "weights that stay: Mutable false")
    count = group.integer(f"{kind}Count", channels, 1)
    check_count(group, f"{kind}Count", count, channels)
    return unit.weights.read(group, kind, count, (count,))


def goc(unit: Unit) -> Value:
    """GOC: (x + bias) * scale, each one number or one per channel."""
    x, channels = unit.x, unit.x.shape[1]
    bias, scale = (goc_data(unit, unit.params, kind, channels) for kind in ("Bias", "Scale"))
    if bias is None and scale is None:
        return unit.add("identity", x=x)
    if bias is not None:
        operand = channel_vector(bias, unit.rank) if bias.ndim else bias
        x = unit.add("add", "bias" if scale is not None else "", x=x, y=operand)
    if scale is not None:
        x = unit.add("mul", x=x, y=channel_vector(scale, unit.rank) if scale.ndim else scale)
    return x


HANDLERS: Mapping[str, Handler] = {
    "Neuron": neuron, "ElementWise": element_wise, "ScaledElementWise": scaled_element_wise, "GOC": goc,
}
