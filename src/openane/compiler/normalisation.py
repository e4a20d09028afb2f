"""(x - mean) / sqrt(variance + epsilon) over some axes.

Where the dimensions kept walk as one channel dimension it is three operations, as Apple's compiler emits them: the
mean into L2, the reciprocal root of the mean of (x - mean)^2 beside it, and a gain-offset operation with the two rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from openane.compiler.memory import Block, Kind
from openane.compiler.walk import merged
from openane.engine import Access, Binary, GainOffset, Reduction, Root, Space
from openane.ops.lowering import ELEMENT, Tensor

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler

CELL = 16
"""Bytes between the statistics of neighbouring channels in L2."""
SHARE = 8
"""Statistics take at most 1/8 of L2."""


@dataclass(frozen=True, slots=True)
class Loops:
    """Source and target walked with the kept dimensions as C and the normalised ones as D, H, W."""

    source: Access
    target: Access


def normalise(compiler: Compiler, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float) -> None:
    """target = source normalised over `axes`."""
    count = float(np.prod([source.shape[axis] for axis in axes]))
    mean_scale, small = float(np.float32(1 / count)), float(np.float16(epsilon))
    loops = _loops(compiler, target, source, axes)
    if loops is None:
        _in_steps(compiler, target, source, axes, 1 / count, epsilon)
        return
    channels = loops.source.shape[1]
    row = channels * CELL
    slot = compiler.blocks.add(Block(2 * row, Kind.L2))
    mean = Access(space=Space.L2, slot=slot, shape=(1, channels, 1, 1, 1), strides=(0, CELL, 0, 0, 0))
    spread = replace(mean, offset=row)
    repeated = replace(mean, shape=loops.source.shape)
    compiler.emit(Reduction(first=loops.source, result=mean, final_scale=mean_scale))
    compiler.emit(Reduction(first=repeated, second=loops.source, result=spread, negate=True,
                            function=Binary.SQUARE_SUM, final_scale=mean_scale, epsilon=small, root=Root.RSQRT))
    rows = replace(mean, shape=(1, channels, 1, 2, 1), strides=(0, CELL, 0, row, 0))
    compiler.emit(GainOffset(first=loops.source, second=rows, result=loops.target, subtract=True))


def _loops(compiler: Compiler, target: Tensor, source: Tensor, axes: Sequence[int]) -> Loops | None:
    """The walk of the three-operation form, or None where strides or sizes rule it out."""
    if not (source.aligned and target.aligned) or source.contiguous != target.contiguous:
        return None
    row = source.contiguous
    inner = sorted((d for d in axes if source.shape[d] > 1), key=lambda d: (d == row, d))
    kept = [d for d in range(source.rank) if d not in inner and source.shape[d] > 1]
    if row is not None and row not in inner:
        return None
    limits = compiler.limits
    planes = merged([_only(t, kept) for t in (source, target)], limits.channels)
    pixels = merged([_only(t, inner) for t in (source, target)], limits.width)
    depth = pixels[0].rank + (row is None)
    if planes[0].rank > 1 or depth > 3 or max(pixels[0].shape, default=1) > limits.width:
        return None
    channels = planes[0].shape[0] if planes[0].rank else 1
    if channels > limits.channels or 2 * channels * CELL > limits.l2_size // SHARE:
        return None
    return Loops(*(_access(t, plane, pixel) for t, plane, pixel in zip((source, target), planes, pixels, strict=True)))


def _only(tensor: Tensor, dims: Sequence[int]) -> Tensor:
    return replace(tensor, shape=tuple(tensor.shape[d] for d in dims), strides=tuple(tensor.strides[d] for d in dims))


def _access(tensor: Tensor, plane: Tensor, pixel: Tensor) -> Access:
    loops = list(zip(pixel.shape, pixel.strides, strict=True))
    if loops and loops[-1][1] != ELEMENT:
        loops.append((1, 0))
    loops = [(1, 0)] * (3 - len(loops)) + loops
    channel = (plane.shape[0], plane.strides[0]) if plane.rank else (1, 0)
    (c, sc), (d, sd), (h, sh), (w, sw) = channel, *loops
    return Access(space=tensor.space, slot=tensor.slot, offset=tensor.offset, shape=(1, c, d, h, w),
                  strides=(0, sc, sd, sh, sw))


def _in_steps(compiler: Compiler, target: Tensor, source: Tensor, axes: Sequence[int], share: float,
              epsilon: float) -> None:
    """Mean, difference, reciprocal root of the mean square, product; the longest axis lies along rows."""
    if source.contiguous not in axes:
        source = compiler.with_last(source, max(axes, key=lambda axis: source.shape[axis]))
    shape = tuple(1 if d in axes else extent for d, extent in enumerate(source.shape))
    order = tuple(sorted(range(source.rank), key=lambda d: (d == source.contiguous, d)))
    mean, spread = compiler.near(shape), compiler.near(shape)
    compiler.reduce(mean, source, axes, final_scale=share)
    centred = compiler.scratch(source.shape, order)
    compiler.elementwise(centred, source, mean, subtract=True)
    compiler.reduce(spread, centred, axes, final_scale=share, epsilon=epsilon, root=Root.RSQRT, square=True)
    compiler.elementwise(target, centred, spread, Binary.MULTIPLY)
