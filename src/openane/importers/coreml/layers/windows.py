"""Layers that slide a window, and those that pad, crop or resize images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openane.errors import GraphError
from openane.formats.protobuf import Message
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler
from openane.rounding import ceil_div

_SAME = ("same", "same_lower")
_POOLS = ("max_pool", "avg_pool", "l2_pool")
_GLOBAL = ("reduce_max", "reduce_mean", "reduce_l2_norm")
_SAMPLING = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")


def _borders(layer: CoremlLayer, amounts: Message) -> tuple[int, int, int, int]:
    """Top, bottom, left, right."""
    sides = [number for edge in amounts.borderAmounts for number in (edge.startEdgeSize, edge.endEdgeSize)]
    if not sides:
        return 0, 0, 0, 0
    if len(sides) != 4 or min(sides) < 0 or max(sides) >= 2**31:
        raise GraphError(f"{layer.label}: border amounts must be four numbers of 0 or more, found {sides[:8]}")
    return sides[0], sides[1], sides[2], sides[3]


def _padding(layer: CoremlLayer) -> dict[str, Any]:
    params = layer.params
    if "same" in params:
        mode = params.same.asymmetryMode
        if not 0 <= mode < len(_SAME):
            raise layer.refuse("asymmetryMode", mode, "0 or 1")
        return {"pad_type": _SAME[mode]}
    pad = _borders(layer, params.valid.paddingAmounts)
    return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}


def _convolution(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    groups, kernel = params.nGroups or 1, layer.pair("kernelSize", 3)
    settings: dict[str, Any] = {"strides": layer.pair("stride"), "dilations": layer.pair("dilationFactor"),
                                "groups": groups}
    bias = layer.rounded(params.bias, (params.outputChannels,), "bias") if params.hasBias else None
    if not params.isDeconvolution:
        weight = layer.rounded(params.weights, (params.outputChannels, params.kernelChannels, *kernel))
        return restore(layer.add("conv", x=x, weight=weight, bias=bias, **settings, **_padding(layer)))
    if groups < 1 or params.outputChannels % groups:
        raise GraphError(f"{layer.label}: outputChannels must be a multiple of nGroups, found "
                         f"{params.outputChannels} and {groups}")
    weight = layer.weights(params.weights, (params.kernelChannels, params.outputChannels // groups, *kernel), axis=1)
    size = [x.shape[0], params.outputChannels, *layer.pair("outputShape")] if params.outputShape else None
    return restore(layer.add("conv_transpose", x=x, weight=weight, bias=bias, output_shape=size, **settings,
                             **_padding(layer)))


def _pooling(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    if not 0 <= params.type < len(_POOLS):
        raise layer.refuse("pooling type", params.type, "0 (max), 1 (average) or 2 (L2)")
    if params.globalPooling:
        return restore(layer.add(_GLOBAL[params.type], x=x, axes=[2, 3], keep_dims=True))
    kernel, strides = layer.pair("kernelSize", 3), layer.pair("stride")
    padding, exclude = _padding(layer), bool(params.avgPoolExcludePadding)
    ceiling = "includeLastPixel" in params
    if ceiling:
        both = tuple(params.includeLastPixel.paddingAmounts) or (0, 0)
        if len(both) != 2 or min(both) < 0 or max(both) >= 2**31:
            raise GraphError(f"{layer.label}: paddingAmounts must be two numbers of 0 or more, found {list(both)[:8]}")
        pad = (both[0], both[0], both[1], both[1])
        padding = {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}
        if params.type != 1 or exclude or not any(pad):  # padding has no value of its own
            padding, ceiling, exclude = _completed(x, kernel, strides, pad), False, True
    extra: dict[str, Any] = {"exclude_padding_from_average": exclude} if params.type == 1 else {}
    return restore(layer.add(_POOLS[params.type], x=x, kernel_sizes=kernel, strides=strides, ceil_mode=ceiling,
                             **padding, **extra))


def _completed(x: Value, kernel: tuple[int, int], strides: tuple[int, int],
               pad: tuple[int, int, int, int]) -> dict[str, Any]:
    """Padding with which rounding down gives the windows of includeLastPixel: one more that is not full counts when it
    starts inside the input or the padding before it."""
    sides = list(pad)
    for axis, extent in enumerate(x.shape[2:]):
        before, after = pad[2 * axis:2 * axis + 2]
        count = ceil_div(extent + before + after - kernel[axis], strides[axis]) + 1
        if (count - 1) * strides[axis] >= extent + before:
            count -= 1
        sides[2 * axis + 1] = max(0, (count - 1) * strides[axis] + kernel[axis] - before - extent)
    return {"pad_type": "custom", "pad": sides} if any(sides) else {"pad_type": "valid"}


def _pad(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    mode = {"reflection": "reflect", "replication": "replicate"}.get(params.which("reflection", "replication") or "",
                                                                     "constant")
    value = layer.number(params.constant.value, "value") if mode == "constant" else None
    pad = (0, 0, 0, 0, *_borders(layer, params.paddingAmounts))
    return restore(layer.add("pad", x=x, pad=pad, mode=mode, constant_val=value))


def _crop(layer: CoremlLayer) -> Value:
    params = layer.params
    if len(layer.inputs) == 2:
        x, like = layer.real(0), layer.inputs[1]
        offset = tuple(params.offset) or (0, 0)
        if x.type.rank != 4 or like.type.rank != 4 or len(offset) != 2:
            raise GraphError(f"{layer.label}: needs two images and two offsets")
        sides = [[first, x.shape[axis] - first - like.shape[axis]]
                 for axis, first in zip((2, 3), offset, strict=True)]
        if min(map(min, sides)) < 0 or max(map(max, sides)) >= 2**31:
            raise GraphError(f"{layer.label}: crops more than there is: {sides}")
        return layer.add("crop", x=x, crop_height=sides[0], crop_width=sides[1])
    x, restore = layer.image()
    top, bottom, left, right = _borders(layer, params.cropAmounts)
    return restore(layer.add("crop", x=x, crop_height=[top, bottom], crop_width=[left, right]))


def _upsample(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    if params.fractionalScalingFactor:
        raise layer.refuse("fractionalScalingFactor", "given", "whole scalingFactor")
    height, width = layer.pair("scalingFactor")
    factors: dict[str, Any] = {"scale_factor_height": float(height), "scale_factor_width": float(width)}
    if params.mode == 0:
        return restore(layer.add("upsample_nearest_neighbor", x=x, **factors))
    if params.linearUpsampleMode == 0:
        return restore(layer.add("resize_bilinear", x=x, target_size_height=height * x.shape[2],
                                 target_size_width=width * x.shape[3], sampling_mode="DEFAULT"))
    return restore(layer.add("upsample_bilinear", x=x, align_corners=params.linearUpsampleMode == 1, **factors))


def _resize_bilinear(layer: CoremlLayer) -> Value:
    method, (x, restore) = layer.params.mode.samplingMethod, layer.image()
    if not 0 <= method < len(_SAMPLING):
        raise layer.refuse("samplingMethod", method, f"0..{len(_SAMPLING) - 1}")
    height, width = layer.pair("targetSize")
    return restore(layer.add("resize_bilinear", x=x, target_size_height=height, target_size_width=width,
                             sampling_mode=_SAMPLING[method]))


LAYERS: Mapping[str, Handler] = {
    "convolution": _convolution, "pooling": _pooling, "padding": _pad, "crop": _crop, "upsample": _upsample,
    "resizeBilinear": _resize_bilinear,
}
