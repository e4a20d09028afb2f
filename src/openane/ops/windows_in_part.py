"""Convolutions and pools of a part of the positions of an image, which `ops.around_parts` continues beyond that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.around_parts import around
from openane.ops.conv_in_part import convolved_in_part
from openane.ops.evaluate import evaluate_node
from openane.ops.kept_windows import window_of
from openane.ops.pool import fold
from openane.ops.window import Window, WindowAxis

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
    made = None if weight is None else convolved_in_part(node, part)
    if made is not None:
        return (made,)
    window, pads = window_of(node), list[int]()
    for d, axis in enumerate(window.axes, 2):
        if part.shape[d] != axis.extent:
            part = _continued(part, d, axis)
            pads += 0, 0
        elif axis.overhang:
            return None
        else:
            pads += axis.before, axis.after
    if weight is None and not any(pads):
        return (_pooled(node.op, part, window),)
    operands = dict(node.operands) | {"pad_type": CUSTOM, "pad": _constant(pads)}
    if "ceil_mode" in operands:
        operands["ceil_mode"] = STRICT
    return evaluate_node(replace(node, operands=operands), {**arrays, id(x): part})


def _pooled(op: str, part: np.ndarray, window: Window) -> np.ndarray:
    """What a pool makes of a part with all that its windows read around it."""
    axes = [_of_all(part.shape[d], axis) for d, axis in enumerate(window.axes, 2)]
    if op == "max_pool":
        return fold(part, Window(tuple(axes)), np.maximum, -np.inf)
    made = fold(part, Window(tuple(axes)), np.add, 0)
    made /= np.float32(prod(window.kernel))
    return made


def _of_all(extent: int, axis: WindowAxis) -> WindowAxis:
    """The windows of an axis that lie in so many positions, and no others."""
    return replace(axis, extent=extent, before=0, after=0, result=(extent - axis.reach) // axis.stride + 1)


def _constant(numbers: list[int]) -> Value:
    return Value("pad", TensorType("int32", (len(numbers),)), np.array(numbers, np.int32))


def _continued(array: np.ndarray, d: int, axis: WindowAxis) -> np.ndarray:
    """A part of the positions of dimension `d` with what its share of the windows reads around it."""
    extent = array.shape[d]
    places, shares = around(axis, extent)
    if len(places) <= extent and not axis.before:
        return array[(slice(None),) * d + (slice(len(places)),)]
    result = array.take(places, axis=d)
    return result if shares is None else np.multiply(result, shares.reshape(-1, *(1,) * (array.ndim - 1 - d)),
                                                     out=result)
