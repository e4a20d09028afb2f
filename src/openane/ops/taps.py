"""Windows unfolded: what lies under each tap of a kernel, side by side, so that sums over windows are matrix products.

A convolution is then weight [Cout, Cin * taps] times columns [Cin * taps, positions], and the gradient of its weight
the results' gradient [Cout, positions] times the transposed columns. Convolutions whose weight is computed while the
program runs are made so: the engine takes kernels as constants only. Columns are made by a convolution too, all planes
of all images at once, whose kernels are 1 at one tap each and 0 elsewhere: exact for finite numbers of at least 6e-5 (0
times an infinite one is NaN, and some generations lose subnormal sums). Depthwise convolutions are products of columns
and weights, rounded to fp16, and sums over taps, which are convolutions with weights of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from openane.graph import Node, Value
from openane.ops.build import GraphBuilder
from openane.ops.window import Window

CHANNELS = 8
"""Channels unfolded at once at most: more would be more products by zero than one core does while columns are written,
fewer more groups of an operation."""
ROW = 32
"""Elements of fp16 in the bursts a row of a surface is made of: rows of a multiple lie one behind the other."""


def taps(builder: GraphBuilder, x: Value, window: Window, fill: float = 0.0) -> list[Value]:
    """The elements of x [N, C, *spatial] under each tap, [N, C, *results] each, taps in row-major order; `fill` where
    a window reaches beyond x."""
    sides = [(axis.before, axis.after + axis.overhang) for axis in window.axes]
    if any(map(any, sides)):
        x = builder.single("pad", x=x, pad=[count for pair in sides for count in pair], mode="constant",
                           constant_val=fill)
    found = []
    for tap in np.ndindex(*window.kernel):
        begin = [t * axis.dilation for t, axis in zip(tap, window.axes, strict=True)]
        end = [b + (axis.result - 1) * axis.stride + 1 for b, axis in zip(begin, window.axes, strict=True)]
        found.append(builder.single("slice_by_index", x=x, begin=[0, 0, *begin], end=[*x.shape[:2], *end],
                                    stride=[1, 1, *window.strides]))
    return found


def unfolded(builder: GraphBuilder, x: Value, window: Window) -> Value:
    """What lies under the taps of x [N, C, *spatial], zeros beyond x: [N, C * taps, *results], the taps of a channel
    next to each other."""
    if _plain(window):
        return x
    images, channels, *extents = x.shape
    some = _together(channels)
    planes = builder.single("reshape", x=x, shape=[images * channels // some, some, *extents])
    made = builder.single(
        "conv", x=planes, weight=_one_hot(window.kernel, some), strides=list(window.strides), pad_type="custom",
        dilations=[axis.dilation for axis in window.axes], groups=1,
        pad=[count for axis in window.axes for count in (axis.before, axis.after)])
    return builder.single("reshape", x=made, shape=[images, -1, *window.results])


def unfolded_results(builder: GraphBuilder, node: Node) -> Value:
    """Of a conv_transpose node the elements of x [N, C, *spatial] that have a part in each result, by the tap of the
    kernel they have it through; zeros where there is none: [N, C * taps, *results]."""
    x, kernel, (_, _, *results) = node["x"], node["weight"].shape[2:], node.output.shape
    images, channels, *extents = x.shape
    if prod(kernel) == 1 and extents == results:
        return x
    some = _together(channels)
    kept: dict[str, Any] = {name: operand for name, operand in node.operands.items()
                            if name in ("strides", "dilations", "pad_type", "pad")}
    planes = builder.single("reshape", x=x, shape=[images * channels // some, some, *extents])
    made = builder.single("conv_transpose", x=planes, weight=np.swapaxes(_one_hot(kernel, some), 0, 1), groups=1,
                          output_shape=[planes.shape[0], some * prod(kernel), *results], **kept)
    return builder.single("reshape", x=made, shape=[images, -1, *results])


def folded(builder: GraphBuilder, columns: Value, node: Node) -> Value:
    """Of a conv_transpose node the results, from what each tap adds to them: [N, C * taps, *spatial of x]."""
    kernel, (images, channels, *results) = node["weight"].shape[2:], node.output.shape
    if prod(kernel) == 1 and list(columns.shape[2:]) == results:
        return columns
    kept: dict[str, Any] = {name: operand for name, operand in node.operands.items()
                            if name in ("strides", "dilations", "pad_type", "pad")}
    planes = builder.single("reshape", x=columns, shape=[images * channels, prod(kernel), *columns.shape[2:]])
    made = builder.single("conv_transpose", x=planes, weight=_one_hot(kernel, 1), groups=1,
                          output_shape=[images * channels, 1, *results], **kept)
    return builder.single("reshape", x=made, shape=[images, channels, *results])


def _plain(window: Window) -> bool:
    """Whether the only tap of every window is the element in its place."""
    return all(axis.kernel == axis.stride == 1 and axis.before == axis.after == 0 for axis in window.axes)


def _together(channels: int) -> int:
    """How many channels are unfolded at once: all of them meet the same kernels, most of which are zeros."""
    return max(count for count in range(1, CHANNELS + 1) if channels % count == 0)


def _one_hot(kernel: Sequence[int], channels: int) -> np.ndarray:
    """For each tap of each channel a kernel that picks it: [channels * taps, channels, *kernel]."""
    return np.eye(channels * prod(kernel)).reshape(-1, channels, *kernel)


def apart(builder: GraphBuilder, value: Value, taps: int) -> Value:
    """[N, C * taps, *results] as [N, C, taps, *results], at most two of these extents."""
    images, depth, *results = value.shape
    return builder.single("reshape", x=value, shape=[images, depth // taps, taps, *_short(results)])


def sum_of_taps(builder: GraphBuilder, value: Value) -> Value:
    """[N, C, taps, *results] summed over taps, [N, C, 1, *results]: a sum that is rounded once, all planes in one
    operation."""
    images, channels, taps, *results = value.shape
    planes = builder.single("reshape", x=value, shape=[images * channels, taps, *results])
    made = builder.single("conv", x=planes, weight=np.ones((1, taps, *(1,) * len(results))))
    return builder.single("reshape", x=made, shape=[images, channels, 1, *results])


def product_of_columns(builder: GraphBuilder, columns: Value, weight: Value, groups: int) -> Value:
    """The convolution of columns [N, Cin * taps, *results] with a weight whose first dimension is Cout and whose others
    hold Cin / groups * taps elements: [N, Cout, *results]."""
    outputs, (images, depth, *results) = weight.shape[0], columns.shape
    taps = weight.type.elements // outputs
    if groups == outputs and depth == outputs * taps:
        factors = builder.single("reshape", x=weight, shape=[outputs, taps, *(1,) * len(_short(results))])
        made = sum_of_taps(builder, builder.single("mul", x=apart(builder, columns, taps), y=factors))
        return builder.single("reshape", x=made, shape=[images, outputs, *results])
    kernel = builder.single("reshape", x=weight, shape=[outputs, taps, *(1,) * len(results)])
    return builder.single("conv", x=columns, weight=kernel, groups=groups)


def weight_gradient(builder: GraphBuilder, columns: Value, given: Value, shape: Sequence[int], groups: int) -> Value:
    """The derivative by a convolution's weight of `shape` from its columns [N, Cin * taps, *results] and that of its
    results `given` [N, Cout, *results]: one product, whose sum over all images and positions is one number before it is
    rounded; for depthwise ones a product for each element and a sum."""
    images, outputs, *results = given.shape
    taps = prod(shape[1:])
    if groups == outputs and columns.shape[1] == outputs * taps:
        terms = builder.single("mul", x=apart(builder, columns, taps), y=apart(builder, given, 1))
        made = builder.single("reduce_sum", x=terms, axes=[0, *range(3, terms.type.rank)], keep_dims=False)
        return builder.single("reshape", x=made, shape=list(shape))
    if images == 1 and results[-1] in (prod(results), *range(ROW, results[-1] + 1, ROW)):
        rows, matrix = (_by_row(builder, value, groups) for value in (given, columns))
        made = builder.single("matmul", x=rows, y=matrix, transpose_y=True)
    else:
        rows, matrix = (_by_position(builder, value, groups) for value in (given, columns))
        made = builder.single("matmul", x=rows, y=matrix, transpose_x=True)
    return builder.single("reshape", x=made, shape=list(shape))


def _short(results: Sequence[int]) -> list[int]:
    """At most two extents of the same elements: tensors with taps have five dimensions at most."""
    return list(results) if len(results) < 3 else [prod(results[:-1]), results[-1]]


def _by_row(builder: GraphBuilder, value: Value, groups: int) -> Value:
    """[1, groups * C, *results] as [groups, C, positions], without groups where there is one."""
    front = [value.shape[1]] if groups == 1 else [groups, value.shape[1] // groups]
    return builder.single("reshape", x=value, shape=[*front, prod(value.shape[2:])])


def _by_position(builder: GraphBuilder, value: Value, groups: int) -> Value:
    """[N, groups * C, *results] as [groups, N * positions, C], without groups where there is one."""
    images, channels, *results = value.shape
    flat = _short(results)
    rank = 2 + len(flat)
    value = builder.single("reshape", x=value, shape=[images, *([channels] if groups == 1 else
                                                               [groups, channels // groups]), *flat])
    perm = [0, *range(2, rank), 1] if groups == 1 else [1, 0, *range(3, rank + 1), 2]
    value = builder.single("transpose", x=value, perm=perm)
    front = [] if groups == 1 else [groups]
    return builder.single("reshape", x=value, shape=[*front, images * prod(results), channels // groups])
