"""Convolutions over one, two or three axes as convolutions over rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.convolution import solve
from openane.compiler.recipes.convolution_problem import Windowed, spread
from openane.engine import Post
from openane.engine.table import Table
from openane.ops.lowering import Tensor
from openane.ops.phases import clear
from openane.ops.tensor import as_planes

Numbers = Sequence[int]


def convolution(context: RecipeContext, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None, *,
                stride: Numbers = (), padding: Numbers = (), dilation: Numbers = (), groups: int = 1,
                post: Post | None = None, table: Table | None = None) -> None:
    """See ops.lowering.Lowering."""
    spatial = source.rank - 2
    steps, pads, holes = (tuple(given) or (value,) * spatial
                          for given, value in ((stride, 1), (padding, 0), (dilation, 1)))
    if spatial == 3:
        flat = Windowed(source, target, weights[:, :, 0], bias, (steps[1], steps[2]), (pads[1], pads[2]),
                        (holes[1], holes[2]), groups, post, table)
        _deep(context, flat, weights, steps[0], pads[0], holes[0])
        return
    if spatial == 1:
        source, target, weights = as_planes(source), as_planes(target), weights[:, :, None]
        steps, pads, holes = (1, *steps), (0, *pads), (1, *holes)
    solve(context, Windowed(source, target, weights, bias, (steps[0], steps[1]), (pads[0], pads[1]),
                            (holes[0], holes[1]), groups, post, table))


def _plane(tensor: Tensor, image: int) -> Tensor:
    """One image of [N, C, D, H, W] as [D, C, H, W]."""
    return tensor.at(0, image).transpose((1, 0, 2, 3))


def _deep(context: RecipeContext, flat: Windowed, weights: np.ndarray, stride: int, padding: int,
          dilation: int) -> None:
    """Depth becomes the batch, kernel depth channels: with the planes of a source stored one behind the other, the
    channels of neighbouring planes are channels of one image. No Apple-made task shows a 3-D kernel."""
    alone = weights.shape[2] == 1 and padding == 0 and (flat.target.shape[2] - 1) * stride < flat.source.shape[2]
    if alone and stride == 1 and flat.depthwise and _by_plane(context, flat):
        return
    for image in range(flat.source.shape[0]):
        source, target = _plane(flat.source, image), _plane(flat.target, image)
        if alone:
            solve(context, replace(flat, source=source.part(0, 0, target.shape[0], stride), target=target))
            continue
        spaced = spread(weights, (dilation, 1, 1))
        taps = spaced.shape[2]
        stack = _stacked(context, source, padding, (target.shape[0] - 1) * stride + taps)
        by_group = spaced.transpose(0, 2, 1, 3, 4).reshape(len(spaced), -1, *spaced.shape[3:])
        windows = _windows(context, stack, target.shape[0], stride, taps, flat.groups)
        solve(context, replace(flat, source=windows, target=target, weights=by_group))


def _by_plane(context: RecipeContext, flat: Windowed) -> bool:
    """Depthwise over planes alone: every plane of a channel is a channel. False where they do not follow each other."""
    (n, channels, depth, *_), results = flat.source.shape, flat.target.shape[3:]
    if flat.target.shape[2] != depth:
        return False
    source = flat.source.reshape((n, channels * depth, *flat.source.shape[3:]))
    target = flat.target.reshape((n, channels * depth, *results))
    if source is None or target is None:
        return False
    solve(context, replace(flat, source=source, target=target, groups=channels * depth,
                           weights=np.repeat(flat.weights, depth, 0),
                           bias=None if flat.bias is None else np.repeat(flat.bias, depth)))
    return True


def _stacked(context: RecipeContext, source: Tensor, before: int, depth: int) -> Tensor:
    """[D, C, H, W] with `before` planes of zeros in front and as many behind as make `depth`, stored in that order; the
    source itself where it is."""
    follows = source.shape[1] == 1 or source.strides[0] == source.shape[1] * source.strides[1]
    if before == 0 and depth <= source.shape[0] and follows:
        return source.part(0, 0, depth)
    stack = context.scratch((depth, *source.shape[1:]))
    count = min(source.shape[0], depth - before)
    context.copy(source.part(0, 0, count), stack.part(0, before, count))
    for start, zeros in ((0, before), (before + count, depth - before - count)):
        if zeros:
            clear(context, stack.part(0, start, zeros))
    return stack


def _windows(context: RecipeContext, stack: Tensor, results: int, stride: int, taps: int, groups: int) -> Tensor:
    """Every window of `taps` planes as an image whose channels are [groups, taps, channels / groups]: overlapping
    views of the stack, or copies of them where there are several groups."""
    (_, channels, high, wide), (depth, plane, row, element) = stack.shape, stack.strides
    if groups == 1:
        return stack.seen(stack.offset, (results, taps * channels, high, wide),
                          (depth * stride, plane if channels > 1 else depth, row, element))
    each = channels // groups
    seen = stack.seen(stack.offset, (results, groups, taps, each, high, wide),
                      (depth * stride, plane * each, depth, plane, row, element))
    images = context.scratch((results, groups * taps * each, high, wide))
    view = images.reshape(seen.shape)
    assert view is not None, "splitting outer dimensions needs no copy"
    context.copy(seen, view)
    return images
