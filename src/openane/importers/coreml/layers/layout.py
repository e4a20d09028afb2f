"""Layers that move elements: shapes, axes, joining and splitting, slices, tiles, rearrangement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.coreml.layers.layer import CoremlLayer, Handler, Result


def _reshaped(layer: CoremlLayer, x: Value, shape: Sequence[int], part: str = "") -> Value:
    """`x` in a shape that may hold one -1. GraphError when the elements do not fit."""
    known = [extent for extent in shape if extent != -1]
    count = int(np.prod(known, dtype=object)) if known else 1
    whole = len(shape) - len(known) <= 1 and min(known, default=1) > 0 and x.type.elements % count == 0
    if not whole or (len(known) == len(shape) and count != x.type.elements):
        raise GraphError(f"{layer.label}: {x.type} cannot take the shape {list(shape)[:16]}")
    return layer.add("reshape", part=part, x=x,
                     shape=[x.type.elements // count if extent == -1 else extent for extent in shape])


def _reshape(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    target = list(params.targetShape)
    if len(target) not in (3, 4) or x.type.rank < 3:
        raise GraphError(f"{layer.label}: targetShape must be [C, H, W] or [N, C, H, W], found {target[:8]}")
    lead = list(x.shape[:-3]) if len(target) == 3 else [target[0]]
    if params.mode == 0:
        return _reshaped(layer, x, [*lead, *target[-3:]])
    last = _moved(layer, x, (1, 2, 0), "channels_last")
    c, h, w = target[-3:]
    return _moved(layer, _reshaped(layer, last, [*lead, h, w, c], "reshaped"), (2, 0, 1))


def _moved(layer: CoremlLayer, x: Value, order: Sequence[int], part: str = "") -> Value:
    """The last three axes in another order."""
    lead = x.type.rank - 3
    return layer.add("transpose", part=part, x=x, perm=[*range(lead), *(lead + axis for axis in order)])


def _flatten(layer: CoremlLayer) -> Value:
    x = layer.only()
    if x.type.rank < 3:
        raise GraphError(f"{layer.label}: needs channels, height and width, found {x.type}")
    if layer.params.mode == 1:
        x = _moved(layer, x, (1, 2, 0), "channels_last")
    return layer.add("reshape", x=x, shape=[*x.shape[:-3], int(np.prod(x.shape[-3:], dtype=np.int64)), 1, 1])


def _permute(layer: CoremlLayer) -> Value:
    x, axes = layer.only(), list(layer.params.axis)
    if sorted(axes) != [0, 1, 2, 3] or x.type.rank != 4 or (axes[0] and x.shape[0] != 1):
        raise GraphError(f"{layer.label}: axis must order the 4 axes of one sequence, found {axes[:8]} for {x.type}")
    return layer.add("transpose", x=x, perm=axes)


def _transpose(layer: CoremlLayer) -> Value:
    return layer.add("transpose", x=layer.only(), perm=list(layer.params.axes))


def _concat(layer: CoremlLayer) -> Value:
    values = layer.reals()
    return layer.add("concat", values=tuple(values), axis=0 if layer.params.sequenceConcat else -3)


def _concat_nd(layer: CoremlLayer) -> Value:
    return layer.add("concat", values=tuple(layer.reals()), axis=layer.params.axis,
                     interleave=bool(layer.params.interleave))


def _stack(layer: CoremlLayer) -> Value:
    return layer.add("stack", values=tuple(layer.reals()), axis=layer.params.axis)


def _split(layer: CoremlLayer) -> Result:
    return layer.add_all("split", x=layer.only(), num_splits=layer.params.nOutputs or len(layer.outputs), axis=-3)


def _split_nd(layer: CoremlLayer) -> Result:
    params = layer.params
    if params.splitSizes:
        return layer.add_all("split", x=layer.only(), split_sizes=list(params.splitSizes), axis=params.axis)
    return layer.add_all("split", x=layer.only(), num_splits=params.numSplits or len(layer.outputs), axis=params.axis)


def _slice(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    if not max(0, 3 - x.type.rank) <= params.axis < 3:
        raise GraphError(f"{layer.label}: axis must be 0 (channels), 1 (height) or 2 (width), found {params.axis} "
                         f"of {x.type}")
    axis = x.type.rank - 3 + params.axis
    extent = x.shape[axis]
    begin, end = (number + extent if number < 0 else number for number in (params.startIndex, params.endIndex))
    begins, ends, steps = [0] * x.type.rank, list(x.shape), [1] * x.type.rank
    begins[axis], ends[axis], steps[axis] = begin, min(end, extent), params.stride or 1
    return layer.add("slice_by_index", x=x, begin=begins, end=ends, stride=steps)


def _slice_static(layer: CoremlLayer) -> Value:
    params = layer.params
    masks: dict[str, Any] = {name: list(found) if any(found) else None for name, found in (
        ("begin_mask", params.beginMasks), ("end_mask", params.endMasks), ("squeeze_mask", params.squeezeMasks))}
    begin, end = ([max(-2**31, min(int(number), 2**31 - 1)) for number in numbers]
                  for numbers in (params.beginIds, params.endIds))
    return layer.add("slice_by_index", x=layer.only(), begin=begin, end=end, stride=list(params.strides) or None,
                     **masks)


def _slice_by_size(layer: CoremlLayer) -> Value:
    raise layer.refuse("a slice whose begin is computed", "sliceBySize", "sliceStatic")


def _tile(layer: CoremlLayer) -> Value:
    x, reps = layer.only(), list(layer.params.reps)
    return layer.add("tile", x=x, reps=[1] * (x.type.rank - len(reps)) + reps)


def _sequence_repeat(layer: CoremlLayer) -> Value:
    x = layer.only()
    return layer.add("tile", x=x, reps=[max(1, layer.params.nRepetitions), *(1,) * (x.type.rank - 1)])


def _reorganize(layer: CoremlLayer) -> Value:
    params, (x, restore) = layer.params, layer.image()
    ops = (("space_to_depth", "block_size"), ("depth_to_space", "block_size"), ("pixel_shuffle", "upscale_factor"))
    if not 0 <= params.mode < len(ops):
        raise layer.refuse("mode", params.mode, f"0..{len(ops) - 1}")
    op, key = ops[params.mode]
    return restore(layer.add(op, x=x, **{key: params.blockSize}))


def _squeeze(layer: CoremlLayer) -> Value:
    return layer.add("squeeze", x=layer.only(), axes=None if layer.params.squeezeAll else list(layer.params.axes))


def _expand_dims(layer: CoremlLayer) -> Value:
    return layer.add("expand_dims", x=layer.only(), axes=list(layer.params.axes))


def _flatten_to_2d(layer: CoremlLayer) -> Value:
    x = layer.only()
    axis = layer.front(layer.params.axis, x.type.rank, end=layer.params.axis >= 0)
    return _reshaped(layer, x, [int(np.prod(x.shape[:axis], dtype=np.int64)),
                                int(np.prod(x.shape[axis:], dtype=np.int64))])


def _reshape_static(layer: CoremlLayer) -> Value:
    return _reshaped(layer, layer.only(), list(layer.params.targetShape))


def _rank_preserving(layer: CoremlLayer) -> Value:
    x, target = layer.only(), list(layer.params.targetShape)
    if len(target) != x.type.rank:
        raise GraphError(f"{layer.label}: targetShape must have {x.type.rank} extents, found {target[:16]}")
    return _reshaped(layer, x, [old if new == 0 else new for old, new in zip(x.shape, target, strict=True)])


def _reshape_like(layer: CoremlLayer) -> Value:
    values = layer.reals(2)
    return _reshaped(layer, values[0], values[1].shape)


def _constant_pad(layer: CoremlLayer) -> Value:
    params, x = layer.params, layer.only()
    pad = list(params.padAmounts)
    if params.padToGivenOutputSizeMode or len(pad) != 2 * x.type.rank:
        raise layer.refuse("padding by output size, or of some axes only", pad[:10], f"{2 * x.type.rank} amounts")
    return layer.add("pad", x=x, pad=pad, mode="constant", constant_val=layer.number(params.value, "value"))


def _gather(layer: CoremlLayer) -> Value:
    if len(layer.inputs) != 2:
        raise GraphError(f"{layer.label}: needs 2 inputs, found {len(layer.inputs)}")
    indices = layer.cast(layer.inputs[1], "int32", "indices")
    return layer.add("gather_along_axis" if layer.kind == "gatherAlongAxis" else "gather", x=layer.real(0),
                     indices=indices, axis=layer.params.axis)


def _reverse(layer: CoremlLayer) -> Value:
    axes = [axis for axis, turned in enumerate(layer.params.reverseDim) if turned]
    x = layer.only()
    return layer.add("reverse", x=x, axes=axes) if axes else layer.add("identity", x=x)


def _band_part(layer: CoremlLayer) -> Value:
    params = layer.params
    return layer.add("band_part", x=layer.only(), lower=params.numLower, upper=params.numUpper)


def _triangle(layer: CoremlLayer) -> Value:
    if layer.params.k:
        raise layer.refuse("a triangle off the diagonal", f"k = {layer.params.k}", "k = 0, or matrixBandPart")
    bounds: dict[str, Any] = {"lower": -1, "upper": 0} if layer.kind == "lowerTriangular" else {"lower": 0, "upper": -1}
    return layer.add("band_part", x=layer.only(), **bounds)


def _sliding_windows(layer: CoremlLayer) -> Value:
    params = layer.params
    return layer.add("sliding_windows", x=layer.only(), axis=params.axis, size=params.windowSize, stride=params.step)


def _fill_like(layer: CoremlLayer) -> Value:
    return layer.add("fill_like", ref_tensor=layer.only(), value=layer.number(layer.params.value, "value"))


def _broadcast(layer: CoremlLayer) -> Value:
    x, target = layer.only(), list(layer.params.targetShape)
    own = [1] * (len(target) - x.type.rank) + list(x.shape)
    if len(own) != len(target) or any(old not in (1, new) or new < 1 for old, new in zip(own, target, strict=True)):
        raise GraphError(f"{layer.label}: {x.type} cannot be broadcast to {target[:16]}")
    same = layer.add("reshape", part="aligned", x=x, shape=own) if len(own) != x.type.rank else x
    return layer.add("tile", x=same, reps=[new // old for old, new in zip(own, target, strict=True)])


LAYERS: Mapping[str, Handler] = {
    "reshape": _reshape, "flatten": _flatten, "permute": _permute, "transpose": _transpose, "concat": _concat,
    "concatND": _concat_nd, "stack": _stack, "split": _split, "splitND": _split_nd, "slice": _slice,
    "sliceStatic": _slice_static, "sliceBySize": _slice_by_size, "tile": _tile, "sequenceRepeat": _sequence_repeat,
    "reorganizeData": _reorganize, "squeeze": _squeeze, "expandDims": _expand_dims, "flattenTo2D": _flatten_to_2d,
    "reshapeStatic": _reshape_static, "rankPreservingReshape": _rank_preserving, "reshapeLike": _reshape_like,
    "constantPad": _constant_pad, "gather": _gather, "gatherAlongAxis": _gather, "reverse": _reverse,
    "matrixBandPart": _band_part, "lowerTriangular": _triangle, "upperTriangular": _triangle,
    "slidingWindows": _sliding_windows, "fillLike": _fill_like, "broadcastToStatic": _broadcast,
}
