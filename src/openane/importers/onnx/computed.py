"""Windows no MIL operation slides: convolutions whose weights are computed at run time, pools with gaps.

Each tap of the kernel is a strided slice of the padded input. A convolution is the product of the weights with the taps
side by side; a pool folds the taps one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import OnnxStep
from openane.importers.window_taps import MOST_TAPS, Pairs, reach, window_taps
from openane.ops.pool import LOWEST
from openane.rounding import ceil_div


def _pairs(padding: Mapping[str, Any], extents: Sequence[int], reach: Sequence[int], strides: Sequence[int]) -> Pairs:
    """(before, after) of each spatial axis."""
    kind = padding["pad_type"]
    if kind == "custom":
        pad = padding["pad"]
        return [(pad[2 * axis], pad[2 * axis + 1]) for axis in range(len(extents))]
    if kind == "valid":
        return [(0, 0)] * len(extents)
    pairs = []
    for extent, length, stride in zip(extents, reach, strides, strict=True):
        total = max((ceil_div(extent, stride) - 1) * stride + length - extent, 0)
        small, large = total // 2, total - total // 2
        pairs.append((small, large) if kind == "same" else (large, small))
    return pairs


def _results(step: OnnxStep, extents: Sequence[int], reach: Sequence[int], strides: Sequence[int], pairs: Pairs,
             ceiling: bool = False) -> list[int]:
    """How many windows fit along each axis; with `ceiling` one that starts inside x but reaches out of it counts."""
    results = []
    for extent, length, stride, (before, after) in zip(extents, reach, strides, pairs, strict=True):
        if stride < 1 or length < 1:
            raise GraphError(f"{step.label}: kernel, strides and dilations must be 1 or more")
        room = extent + before + after - length
        count = (ceil_div(room, stride) if ceiling else room // stride) + 1
        if ceiling and (count - 1) * stride >= extent + before:
            count -= 1
        if count < 1:
            raise GraphError(f"{step.label}: the kernel reaches {length}, beyond the padded extent {length + room}")
        results.append(count)
    return results


def computed_conv(step: OnnxStep, x: Value, *, strides: Sequence[int], dilations: Sequence[int], groups: int,
                  padding: Mapping[str, Any]) -> Value:
    """A convolution whose weights (input 1) or bias (input 2) are computed."""
    weight = step.real(1)
    pairs = _pairs(padding, x.shape[2:], reach(weight.shape[2:], dilations), strides)
    return _bias(step, _product(step, x, weight, strides, dilations, groups, pairs))


def _bias(step: OnnxStep, result: Value) -> Value:
    if not step.has(2):
        return result
    bias = step.add("reshape", part="bias", x=step.real(2), shape=(-1, *(1,) * (result.type.rank - 2)))
    return step.add("add", x=result, y=bias)


def _product(step: OnnxStep, x: Value, weight: Value, strides: Sequence[int], dilations: Sequence[int], groups: int,
             pairs: Pairs) -> Value:
    """Weights [Cout, Cin / groups, *kernel] times the taps, one product for each group."""
    if groups < 1 or x.shape[1] % groups or weight.shape[0] % groups or x.shape[1] // groups != weight.shape[1]:
        raise GraphError(f"{step.label}: {groups} groups do not fit x {list(x.shape)} and weight {list(weight.shape)}")
    kernel = weight.shape[2:]
    if groups * prod(kernel) > MOST_TAPS:
        raise UnsupportedError(step.label, "groups and taps of computed weights become operations of their own",
                               limit=MOST_TAPS, found=groups * prod(kernel), remedy="make the weights constants")
    results = _results(step, x.shape[2:], reach(kernel, dilations), strides, pairs)
    taps = window_taps(step, x, kernel, strides, dilations, pairs, results, 0.0)
    flat = [step.add("reshape", part="flat", x=tap, shape=(*tap.shape[:2], prod(results))) for tap in taps]
    rows = step.add("reshape", part="rows", x=weight, shape=(*weight.shape[:2], prod(kernel)))
    rows = step.add("transpose", part="turned", x=rows, perm=(0, 2, 1))
    rows = step.add("reshape", part="weights", x=rows, shape=(weight.shape[0], prod(weight.shape[1:])))
    made = []
    for group in range(groups):
        columns = tuple(_part(step, tap, 1, group, weight.shape[1]) for tap in flat)
        column = columns[0] if len(columns) == 1 else step.add("concat", part="columns", values=columns, axis=1)
        row = _part(step, rows, 0, group, weight.shape[0] // groups)
        made.append(step.add("matmul", part="product", x=row, y=column))
    whole = made[0] if groups == 1 else step.add("concat", part="groups", values=tuple(made), axis=1)
    return step.add("reshape", x=whole, shape=(x.shape[0], weight.shape[0], *results))


def _part(step: OnnxStep, value: Value, axis: int, number: int, size: int) -> Value:
    """Part `number` of equal ones of `size` along an axis."""
    if value.shape[axis] == size:
        return value
    begin, end = [0] * value.type.rank, list(value.shape)
    begin[axis], end[axis] = number * size, (number + 1) * size
    return step.add("slice_by_index", part="part", x=value, begin=begin, end=end)


def computed_conv_transpose(step: OnnxStep, x: Value, begin: Sequence[int], results: Sequence[int], *,
                            strides: Sequence[int], dilations: Sequence[int], groups: int) -> Value:
    """A convolution of x with zeros between its elements, the kernel turned around and its groups apart."""
    weight = step.real(1)
    spatial = range(2, x.type.rank)
    turned = step.add("reverse", part="reversed", x=weight, axes=spatial)
    parts = [step.add("transpose", part="swapped", x=_part(step, turned, 0, group, weight.shape[0] // groups),
                      perm=(1, 0, *spatial)) for group in range(groups)]
    kernel = parts[0] if groups == 1 else step.add("concat", part="kernel", values=tuple(parts), axis=0)
    wide = _spread(step, x, strides)
    pairs = [(length - 1 - before, kept + before - extent) for length, before, kept, extent
             in zip(reach(weight.shape[2:], dilations), begin, results, wide.shape[2:], strict=True)]
    return _bias(step, _product(step, _cut(step, wide, pairs), kernel, (1,) * len(strides), dilations, groups,
                                [(max(before, 0), max(after, 0)) for before, after in pairs]))


def _cut(step: OnnxStep, x: Value, pairs: Pairs) -> Value:
    """x without what negative padding takes away."""
    if min(map(min, pairs)) >= 0:
        return x
    begin = [0, 0, *(max(-before, 0) for before, _ in pairs)]
    end = [*x.shape[:2], *(extent + min(after, 0) for extent, (_, after) in zip(x.shape[2:], pairs, strict=True))]
    return step.add("slice_by_index", part="cut", x=x, begin=begin, end=end)


def _spread(step: OnnxStep, x: Value, strides: Sequence[int]) -> Value:
    """x with strides - 1 zeros between neighbours."""
    for axis, stride in enumerate(strides, start=2):
        if stride == 1 or x.shape[axis] == 1:
            continue
        shape = x.shape
        front, behind = prod(shape[:axis + 1]), prod(shape[axis + 1:])
        rows = step.add("reshape", part="rows", x=x, shape=(front, 1, behind))
        rows = step.add("pad", part="gaps", x=rows, pad=(0, 0, 0, stride - 1, 0, 0), mode="constant", constant_val=0.0)
        long = (*shape[:axis], shape[axis] * stride, *shape[axis + 1:])
        x = step.add("reshape", part="spread", x=rows, shape=long)
        end = [extent - (stride - 1 if place == axis else 0) for place, extent in enumerate(long)]
        x = step.add("slice_by_index", part="trimmed", x=x, begin=[0] * len(end), end=end)
    return x


def dilated_pool(step: OnnxStep, x: Value, op: str, kernel: Sequence[int], strides: Sequence[int],
                 dilations: Sequence[int], padding: Mapping[str, Any], ceiling: bool, counted: bool) -> Value:
    """A pool with gaps; an average counts elements of x, with `counted` those of the padding too."""
    pairs = _pairs(padding, x.shape[2:], reach(kernel, dilations), strides)
    results = _results(step, x.shape[2:], reach(kernel, dilations), strides, pairs, ceiling)
    largest = op == "max_pool"
    taps = window_taps(step, x, kernel, strides, dilations, pairs, results, LOWEST if largest else 0.0)
    total = taps[0]
    for tap in taps[1:]:
        total = step.add("maximum" if largest else "add", part="folded", x=total, y=tap)
    if largest:
        return total
    shares = 1 / _counts(step, x.shape[2:], kernel, strides, dilations, pairs, results, counted)
    return step.add("mul", x=total, y=shares.astype(np.float16))


def _counts(step: OnnxStep, extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
            dilations: Sequence[int], pairs: Pairs, results: Sequence[int], counted: bool) -> np.ndarray:
    """How many elements each window averages, [1, 1, *results]."""
    total = np.ones(bounded(step, results))
    for axis, extent in enumerate(extents):
        before, after = pairs[axis]
        places = np.arange(results[axis])[:, None] * strides[axis] + np.arange(kernel[axis]) * dilations[axis] - before
        low, high = (-before, extent + after) if counted else (0, extent)
        count = ((places >= low) & (places < high)).sum(1)
        total = total * count.reshape([-1 if place == axis else 1 for place in range(len(extents))])
    return total[None, None]
