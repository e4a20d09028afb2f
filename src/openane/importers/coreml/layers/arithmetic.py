"""Layers that work element by element: activations, unary functions, arithmetic, comparisons, scale and bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.formats.protobuf import Message
from openane.graph import Value
from openane.importers.composites import (
    chained,
    inverse_hyperbolic_cosine,
    inverse_hyperbolic_sine,
    mean_of,
    scaled,
)
from openane.importers.coreml.layers.layer import CoremlLayer, Handler

_PLAIN = {"ReLU": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softsign": "softsign", "softplus": "softplus"}
_ALPHA = {"leakyReLU": "leaky_relu", "thresholdedReLU": "thresholded_relu", "ELU": "elu"}
_ALPHA_BETA = {"linear": "linear_activation", "scaledTanh": "scaled_tanh", "sigmoidHard": "sigmoid_hard"}
_WEIGHTED = {"PReLU": "prelu", "parametricSoftplus": "softplus_parametric"}
_UNARY = ("sqrt", "rsqrt", "inverse", "pow", "exp", "log", "abs", "threshold")
_GELU = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")


def _activation(layer: CoremlLayer) -> Value:
    params = layer.params
    kind = params.which(*_PLAIN, *_ALPHA, *_ALPHA_BETA, *_WEIGHTED)
    if kind is None:
        raise layer.refuse("this activation", "none that is known", ", ".join((*_PLAIN, *_ALPHA, *_ALPHA_BETA)))
    inner = getattr(params, kind)
    if kind in _WEIGHTED:
        return _weighted(layer, kind, inner)
    x = layer.only()
    if kind in _PLAIN:
        return layer.add(_PLAIN[kind], x=x)
    alpha = layer.number(inner.alpha, "alpha")
    if kind in _ALPHA:
        return layer.add(_ALPHA[kind], x=x, alpha=alpha)
    return layer.add(_ALPHA_BETA[kind], x=x, alpha=alpha, beta=layer.number(inner.beta, "beta"))


def _weighted(layer: CoremlLayer, kind: str, inner: Message) -> Value:
    x, restore = layer.image()
    channels = x.shape[1]
    keys = ("alpha", "beta") if kind == "parametricSoftplus" else ("alpha",)
    operands: dict[str, Any] = {}
    for key in keys:
        weights = getattr(inner, key)
        single = len(weights.floatValue) == 4 or len(weights.float16Value) == 2
        operands[key] = np.broadcast_to(layer.weights(weights, (1 if single else channels,), key), (channels,)).copy()
    return restore(layer.add(_WEIGHTED[kind], x=x, **operands))


def _unary(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    if not 0 <= params.type < len(_UNARY):
        raise layer.refuse("unary type", params.type, f"0..{len(_UNARY) - 1}: {', '.join(_UNARY)}")
    op, scale = _UNARY[params.type], params.scale or 1.0
    if scale != 1.0 or params.shift:
        x = layer.add("linear_activation", part="scaled", x=x, alpha=layer.number(scale, "scale"),
                      beta=layer.number(params.shift, "shift"))
    if op == "pow":
        return layer.add("pow", x=x, y=layer.number(params.alpha, "alpha"))
    if op == "threshold":
        return layer.add("threshold", x=x, alpha=layer.number(params.alpha, "alpha"))
    if op in ("rsqrt", "inverse", "log"):
        return layer.add(op, x=x, epsilon=layer.number(params.epsilon, "epsilon"))
    return layer.add(op, x=x)


def _many(op: str, *, alpha: bool = False) -> Handler:
    """`op` over all inputs; with a single one, over it and the parameter alpha."""
    def handler(layer: CoremlLayer) -> Value:
        values = layer.reals()
        if len(values) == 1 and alpha:
            return layer.add(op, x=values[0], y=layer.number(layer.params.alpha, "alpha"))
        return layer.add("identity", x=values[0]) if len(values) == 1 else chained(layer, op, values)
    return handler


def _two(op: str) -> Handler:
    def handler(layer: CoremlLayer) -> Value:
        values = layer.reals(2)
        if len(values) > 2:
            raise GraphError(f"{layer.label}: needs 2 inputs, found {len(values)}")
        return layer.add(op, x=values[0], y=values[1])
    return handler


def _compare(op: str) -> Handler:
    def handler(layer: CoremlLayer) -> Value:
        values = layer.reals()
        other = values[1] if len(values) > 1 else layer.number(layer.params.alpha, "alpha")
        return layer.add(op, x=values[0], y=other)
    return handler


def _logical(op: str) -> Handler:
    def handler(layer: CoremlLayer) -> Value:
        values = [layer.cast(value, "bool", f"input{number}") for number, value in enumerate(layer.inputs)]
        if len(values) != (1 if op == "logical_not" else 2):
            raise GraphError(f"{layer.label}: {len(values)} inputs do not fit")
        operands: dict[str, Any] = dict(zip("xy", values, strict=False))
        return layer.add(op, **operands)
    return handler


def _function(op: str) -> Handler:
    return lambda layer: layer.add(op, x=layer.only())


def _gelu(layer: CoremlLayer) -> Value:
    if not 0 <= layer.params.mode < len(_GELU):
        raise layer.refuse("gelu mode", layer.params.mode, f"0..{len(_GELU) - 1}")
    return layer.add("gelu", x=layer.only(), mode=_GELU[layer.params.mode])


def _clip(layer: CoremlLayer) -> Value:
    return layer.add("clip", x=layer.only(), alpha=layer.number(layer.params.minVal, "minVal"),
                     beta=layer.number(layer.params.maxVal, "maxVal"))


def _clamped_relu(layer: CoremlLayer) -> Value:
    return layer.add("clamped_relu", x=layer.only(), alpha=layer.number(layer.params.alpha, "alpha"),
                     beta=layer.number(layer.params.beta, "beta"))


def _vector(layer: CoremlLayer, weights: Message, shape: Sequence[int], what: str, rank: int) -> np.ndarray:
    """Weights of shape [1], [C] or [C, H, W], to be broadcast against a tensor of `rank` dimensions."""
    extents = list(shape) or [1]
    array = layer.weights(weights, extents, what)
    spatial = extents if len(extents) != 1 else [*extents, 1, 1]
    if len(spatial) > rank:
        raise GraphError(f"{layer.label}: {what} {extents} have more dimensions than the input's {rank}")
    return array.reshape([1] * (rank - len(spatial)) + spatial)


def _scale(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    scale = _vector(layer, params.scale, params.shapeScale, "scale", x.type.rank)
    bias = _vector(layer, params.bias, params.shapeBias, "bias", x.type.rank) if params.hasBias else None
    return scaled(layer, x, scale, bias)


def _bias(layer: CoremlLayer) -> Value:
    x = layer.only()
    return layer.add("add", x=x, y=_vector(layer, layer.params.bias, layer.params.shape, "bias", x.type.rank))


def _where(layer: CoremlLayer) -> Value:
    if len(layer.inputs) != 3:
        raise GraphError(f"{layer.label}: needs 3 inputs, found {len(layer.inputs)}")
    return layer.add("select", cond=layer.cast(layer.inputs[0], "bool", "cond"), a=layer.real(1), b=layer.real(2))


LAYERS: Mapping[str, Handler] = {
    "activation": _activation, "unary": _unary, "gelu": _gelu, "clip": _clip, "clampedReLU": _clamped_relu,
    "scale": _scale, "bias": _bias, "whereBroadcastable": _where, "copy": _function("identity"),
    "add": _many("add", alpha=True), "multiply": _many("mul", alpha=True),
    "average": lambda layer: mean_of(layer, layer.reals()),
    "max": _many("maximum"), "min": _many("minimum"),
    "addBroadcastable": _many("add"), "multiplyBroadcastable": _many("mul"), "maxBroadcastable": _many("maximum"),
    "minBroadcastable": _many("minimum"),
    **{f"{name}Broadcastable": _two(op) for name, op in (("subtract", "sub"), ("divide", "real_div"), ("mod", "mod"),
                                                         ("floorDiv", "floor_div"), ("pow", "pow"))},
    **{name: _compare(op) for name, op in (("equal", "equal"), ("notEqual", "not_equal"), ("lessThan", "less"),
                                           ("lessEqual", "less_equal"), ("greaterThan", "greater"),
                                           ("greaterEqual", "greater_equal"))},
    **{f"logical{name}": _logical(f"logical_{name.lower()}") for name in ("And", "Or", "Xor", "Not")},
    "asinh": lambda layer: inverse_hyperbolic_sine(layer, layer.only()),
    "acosh": lambda layer: inverse_hyperbolic_cosine(layer, layer.only()),
    **{name: _function(name) for name in ("ceil", "floor", "sign", "round", "exp2", "sin", "cos", "tan", "asin",
                                          "acos", "atan", "sinh", "cosh", "tanh", "atanh", "erf")},
}
