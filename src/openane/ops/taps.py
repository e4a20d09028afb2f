"""Windows unfolded: what lies under each tap of a kernel, side by side, so that sums over windows are matrix products.

A convolution is then weight [Cout, Cin * taps] times columns [Cin * taps, positions], and the gradient of its weight
the results' gradient [Cout, positions] times the transposed columns. Convolutions whose weight is computed while the
program runs are made so: the engine takes kernels as constants only. Depthwise ones are sums of products, tap by tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from openane.graph import Value
from openane.ops.build import GraphBuilder
from openane.ops.window import Window


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


def columns(builder: GraphBuilder, parts: Sequence[Value], groups: int) -> Value:
    """Taps [N, C, *results] as [N, groups, C / groups * taps, positions], the taps of a channel next to each other."""
    images, channels, *results = parts[0].shape
    if len(parts) > 1 and len(results) < 3:
        deeper = [builder.single("expand_dims", x=part, axes=[2]) for part in parts]
    else:
        deeper = [builder.single("reshape", x=part, shape=[images, channels, 1, prod(results)]) for part in parts]
    joined = deeper[0] if len(deeper) == 1 else builder.single("concat", values=tuple(deeper), axis=2)
    depth = channels // groups * len(parts)
    return builder.single("reshape", x=joined, shape=[images, groups, depth, prod(results)])


def product_of_taps(builder: GraphBuilder, parts: Sequence[Value], weight: Value, groups: int) -> Value:
    """The convolution of taps [N, C, *results] with weight [Cout, C / groups, *kernel]: [N, Cout, *results]."""
    images, channels, *results = parts[0].shape
    shape = [images, weight.shape[0], *results]
    if groups == channels == weight.shape[0]:
        factors = builder.single("reshape", x=weight, shape=[channels, len(parts), *(1,) * (len(results) - 1)])
        result = None
        for position, part in enumerate(parts):
            factor = _range(builder, factors, position)
            term = builder.single("mul", x=part, y=factor)
            result = term if result is None else builder.single("add", x=result, y=term)
        assert result is not None, "a kernel has a tap"
        return result
    rows = builder.single("reshape", x=weight, shape=[groups, weight.shape[0] // groups,
                                                      weight.type.elements // weight.shape[0]])
    matrix = columns(builder, parts, groups)
    if groups == 1 and images == 1:
        rows, matrix = (builder.single("squeeze", x=rows, axes=[0]), builder.single("squeeze", x=matrix, axes=[0, 1]))
    return builder.single("reshape", x=builder.single("matmul", x=rows, y=matrix), shape=shape)


def _range(builder: GraphBuilder, factors: Value, position: int) -> Value:
    """One tap's factors [C, 1, ...] of [C, taps, 1, ...]."""
    rest = factors.shape[2:]
    return builder.single("slice_by_size", x=factors, begin=[0, position, *(0 for _ in rest)],
                          size=[factors.shape[0], 1, *rest])


def weight_gradient(builder: GraphBuilder, parts: Sequence[Value], given: Value, shape: Sequence[int],
                    groups: int) -> Value:
    """The derivative by a convolution's weight of `shape` from taps [N, Cin, *results] and that of its results `given`
    [N, Cout, *results]: one product over all images and positions, or a sum of products for each tap of a depthwise
    one."""
    images, channels, *results = parts[0].shape
    if groups == channels == shape[0]:
        over = [0, *range(2, 2 + len(results))]
        sums = [builder.single("reduce_sum", x=builder.single("mul", x=given, y=part), axes=over, keep_dims=False)
                for part in parts]
        joined = sums[0] if len(sums) == 1 else builder.single("stack", values=tuple(sums), axis=1)
        return builder.single("reshape", x=joined, shape=list(shape))
    positions = prod(results)
    rows = builder.single("reshape", x=given, shape=[images, groups, shape[0] // groups, positions])
    matrix = columns(builder, parts, groups)
    rows, matrix = (_images_last(builder, value) for value in (rows, matrix))
    return builder.single("reshape", x=builder.single("matmul", x=rows, y=matrix, transpose_y=True), shape=list(shape))


def _images_last(builder: GraphBuilder, value: Value) -> Value:
    """[N, groups, rows, positions] as [groups, rows, N * positions], without groups where there is one."""
    images, groups, rows, positions = value.shape
    if images > 1:
        value = builder.single("transpose", x=value, perm=[1, 2, 0, 3])
    front = [rows] if groups == 1 else [groups, rows]
    return builder.single("reshape", x=value, shape=[*front, images * positions])
