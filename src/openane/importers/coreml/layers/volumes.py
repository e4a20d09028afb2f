"""Layers of volumes: [N, C, depth, height, width]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler

_AXES = ("Depth", "Height", "Width")
_SIDES = ("Front", "Back", "Top", "Bottom", "Left", "Right")
_PADDING = ("custom", "valid", "same")
_POOLS = (("max_pool", "reduce_max"), ("avg_pool", "reduce_mean"))


def _volume(layer: CoremlLayer) -> Value:
    x = layer.only()
    if x.type.rank != 5:
        raise GraphError(f"{layer.label}: needs [N, C, depth, height, width], found {x.type}")
    return x


def _each(layer: CoremlLayer, name: str, default: int = 1) -> list[int]:
    """A parameter for each axis."""
    numbers = [getattr(layer.params, f"{name}{axis}") or default for axis in _AXES]
    if min(numbers) < 1:
        raise GraphError(f"{layer.label}: {name} must be numbers of 1 or more, found {numbers}")
    return numbers


def _padding(layer: CoremlLayer) -> dict[str, Any]:
    kind = layer.params.paddingType
    if not 0 <= kind < len(_PADDING):
        raise layer.refuse("paddingType", kind, "0 (custom), 1 (valid) or 2 (same)")
    pad = [getattr(layer.params, f"customPadding{side}") for side in _SIDES]
    if _PADDING[kind] != "custom":
        return {"pad_type": _PADDING[kind]}
    return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}


def _convolution(layer: CoremlLayer) -> Value:
    params, x = layer.params, _volume(layer)
    groups, kernel = params.nGroups or 1, _each(layer, "kernel", 3)
    if groups < 1 or params.inputChannels % groups or params.outputChannels % groups:
        raise GraphError(f"{layer.label}: channels must be multiples of nGroups, found {params.inputChannels}, "
                         f"{params.outputChannels} and {groups}")
    settings: dict[str, Any] = {"strides": _each(layer, "stride"), "dilations": _each(layer, "dilation"),
                                "groups": groups, **_padding(layer)}
    bias = layer.rounded(params.bias, (params.outputChannels,), "bias") if params.hasBias else None
    if not params.isDeconvolution:
        kernels = layer.rounded(params.weights, (params.outputChannels, params.inputChannels // groups, *kernel))
        return layer.add("conv", x=x, weight=kernels, bias=bias, **settings)
    weight = layer.weights(params.weights, (params.inputChannels, params.outputChannels // groups, *kernel), axis=1)
    size = list(params.outputShape)[-3:]
    return layer.add("conv_transpose", x=x, weight=weight, bias=bias,
                     output_shape=[x.shape[0], params.outputChannels, *size] if size else None, **settings)


def _pooling(layer: CoremlLayer) -> Value:
    params, x = layer.params, _volume(layer)
    if not 0 <= params.type < len(_POOLS):
        raise layer.refuse("pooling type", params.type, "0 (max) or 1 (average)")
    pool, reduction = _POOLS[params.type]
    if layer.kind == "globalPooling3d":
        return layer.add(reduction, x=x, axes=[2, 3, 4], keep_dims=True)
    exclude = {"exclude_padding_from_average": bool(params.countExcludePadding)}
    extra: dict[str, Any] = exclude if params.type == 1 else {}
    return layer.add(pool, x=x, kernel_sizes=_each(layer, "kernel", 3), strides=_each(layer, "stride"),
                     **_padding(layer), **extra)


LAYERS: Mapping[str, Handler] = {"convolution3d": _convolution, "pooling3d": _pooling, "globalPooling3d": _pooling}
