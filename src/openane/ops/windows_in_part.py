"""Convolutions and pools of a part of the positions of an image. Beyond the part it stands again, times so much less
that borders make numbers smaller by as much as they do in the whole: of few positions most are at a border, and what
misses all that lies beyond would seem to be far smaller behind many layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.conv import conv_window
from openane.ops.evaluate import evaluate_node
from openane.ops.pool import pool_window
from openane.ops.window import WindowAxis
from openane.rounding import ceil_div

CUSTOM = Value("custom", TensorType("string", ()), "custom")
STRICT = Value("strict", TensorType("bool", ()), np.array(False))
"""Results are not rounded up: how many there are is known."""


def windows_in_part(node: Node, arrays: Mapping[int, np.ndarray]) -> tuple[np.ndarray, ...] | None:
    """The results of a convolution with a known weight or of a pool, of a part of x, by id in `arrays`, some of whose
    spatial dimensions are shorter than the node says: the same share of the windows. None of other parts."""
    x, weight = node["x"], node.get("weight")
    if weight is not None and not weight.constant:
        return None
    part = arrays[id(x)]
    if part.shape[:2] != x.shape[:2]:
        return None
    window = pool_window(node.op, node.operands) if weight is None else conv_window(node.operands)
    pads: list[int] = []
    for d, axis in enumerate(window.axes, 2):
        if part.shape[d] != axis.extent:
            part = _continued(part, d, axis)
            pads += 0, 0
        elif axis.overhang:
            return None
        else:
            pads += axis.before, axis.after
    operands = dict(node.operands) | {"pad_type": CUSTOM, "pad": _constant(pads)}
    if "ceil_mode" in operands:
        operands["ceil_mode"] = STRICT
    return evaluate_node(replace(node, operands=operands), {**arrays, id(x): part})


def _constant(numbers: list[int]) -> Value:
    return Value("pad", TensorType("int32", (len(numbers),)), np.array(numbers, np.int32))


def _continued(array: np.ndarray, d: int, axis: WindowAxis) -> np.ndarray:
    """A part of the positions of dimension `d` with what its share of the windows reads around it."""
    extent = array.shape[d]
    places, shares = _around(axis, extent)
    if len(places) <= extent and not axis.before:
        return array[(slice(None),) * d + (slice(len(places)),)]
    result = array.take(places, axis=d)
    return result if shares is None else np.multiply(result, shares.reshape(-1, *(1,) * (array.ndim - 1 - d)),
                                                     out=result)


@lru_cache(maxsize=1 << 8)
def _around(axis: WindowAxis, extent: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Which of `extent` positions stand where the windows read that are their share of an axis, and what they are
    multiplied by, float32; None where all are by 1. What a tap reads beyond the part is in the whole beyond it as
    often as the shares leave out: windows sum numbers of either sign, whose squares add up."""
    count = max(1, axis.result * extent // axis.extent)
    size = (count - 1) * axis.stride + axis.reach
    left, seen = np.zeros(size), np.zeros(size)
    for tap in range(axis.kernel):
        first = tap * axis.dilation
        (before, behind), (all_before, all_behind) = (
            _beyond(axis, first - axis.before, *many) for many in ((count, extent), (axis.result, axis.extent)))
        ends = (before, all_before, first), (behind, all_behind, first + (count - behind) * axis.stride)
        for near, far, start in ends:
            if near:
                places = slice(start, start + near * axis.stride, axis.stride)
                left[places] += max(0.0, 1 - far * count / (near * axis.result))
                seen[places] += 1
    factors = np.sqrt(np.divide(left, seen, out=np.ones(size), where=seen > 0)).astype(np.float32)
    return np.arange(-axis.before, size - axis.before) % extent, None if (factors == 1).all() else factors


def _beyond(axis: WindowAxis, tap: int, count: int, extent: int) -> tuple[int, int]:
    """How many of so many windows read before an axis of this extent, and behind it, with the tap that the first window
    has at position `tap`."""
    before, behind = ceil_div(-tap, axis.stride), count - ceil_div(extent - tap, axis.stride)
    return min(max(0, before), count), min(max(0, behind), count)
