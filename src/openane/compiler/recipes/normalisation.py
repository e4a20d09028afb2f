"""(x - mean) / sqrt(variance + epsilon) over some axes.

Where one dimension at most is kept, and not the one rows run along, it is three operations, as Apple's compiler emits
them (over H, W; over C, H, W; over the last axis of [1, S, D]): the mean into L2, the reciprocal root of the mean of
(x - mean)^2 beside it, and a gain-offset operation with the two rows. Otherwise (over W or C alone) mean, difference,
reciprocal root of its mean square and product; a row that is kept is turned before each reduction. Over C of
[1, C, 1, 1] the planes become a row first.

The mean is an fp16 number: elements that differ by less than its rounding come out with that error, as in Apple's
programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.chips import Limits
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.loops.assign import OperandRole, access, assign, merged
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.reduction import SHARE, pixel_loops, staged
from openane.engine import Access, Binary, GainOffset, Reduction, Root, Space
from openane.ops.lowering import ELEMENT, Tensor, plane_axis
from openane.record_classes import dataclass
from openane.rounding import round_up

ROW = 2
"""The rows of means and of roots start at multiples of so many lines of L2: 0x20 bytes apart for one channel, 0x80 for
64 (H13)."""


@dataclass(frozen=True, slots=True)
class Loops:
    """The source walked with the kept dimension as C and the normalised ones as D, H, W; source and target as the last
    operation walks them, and the stride of the statistics along its C."""

    source: Access
    first: Access
    target: Access
    step: int


def normalise(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int], epsilon: float,
              scale: float = 1.0) -> None:
    """target = source normalised over `axes`, times `scale`: that of the root, of whose squares a smaller share is
    taken, and as much less is added."""
    if len(axes) == 1 and axes[0] == plane_axis(source.rank) and 1 < source.shape[axes[0]] == source.elements:
        _as_row(context, target, source, axes[0], epsilon, scale)
        return
    count = float(np.prod([source.shape[axis] for axis in axes]))
    loops = _loops(context, target, source, axes)
    if loops is None:
        _in_steps(context, target, source, axes, 1 / count, epsilon, scale)
        return
    mean_scale, small = float(np.float32(1 / count)), float(np.float16(epsilon / scale ** 2))
    channels = loops.source.shape[1]
    row = round_up(channels * ELEMENT, ROW * context.limits.l2_alignment)
    slot = context.blocks.add(VirtualBuffer(2 * row, BufferKind.L2))
    mean = Access(space=Space.L2, slot=slot, shape=(1, channels, 1, 1, 1), strides=(0, ELEMENT, 0, 0, 0))
    spread = replace(mean, offset=row)
    repeated = replace(mean, shape=loops.source.shape)
    context.emit(Reduction(first=loops.source, result=mean, final_scale=mean_scale))
    context.emit(Reduction(first=repeated, second=loops.source, result=spread, negate=True,
                           function=Binary.SQUARE_SUM, final_scale=mean_scale / scale ** 2, epsilon=small,
                           root=Root.RSQRT))
    n, c = loops.first.shape[:2]
    rows = replace(mean, shape=(n, c, 1, 2, 1), strides=(0, loops.step, 0, row, 0))
    context.emit(GainOffset(first=loops.first, second=rows, result=loops.target, subtract=True))


def _as_row(context: RecipeContext, target: Tensor, source: Tensor, axis: int, epsilon: float,
            scale: float) -> None:
    """Planes without pixels, normalised as a row where it lies in L2: in and out by a planar operation, as Apple's
    compiler does."""
    order = (*(d for d in range(source.rank) if d != axis), axis)
    line = context.near(source.shape, axis)
    result = line if line.space is Space.L2 else context.scratch(source.shape, order)
    context.elementwise(line, source)
    normalise(context, result.transpose(order), line.transpose(order), (source.rank - 1,), epsilon, scale)
    context.elementwise(target, result)


def _loops(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int]) -> Loops | None:
    """The walk of the three-operation form, or None where strides or sizes rule it out."""
    row, limits = source.contiguous, context.limits
    if not (source.aligned and target.aligned) or row != target.contiguous:
        return None
    real = [d for d in range(source.rank) if source.shape[d] > 1]
    inner = sorted(set(real).intersection(axes), key=lambda d: (d == row, d))
    kept = sorted(set(real).difference(axes))
    if row is not None and row not in inner:
        return None
    walked = _walked(source, target, inner, kept, limits)
    if walked is None:
        return None
    if not kept and (dims := assign([source, target], [OperandRole.PLANAR_SOURCE, OperandRole.RESULT],
                                    limits)) is not None:
        return Loops(walked[0], access(source, dims), access(target, dims), 0)
    return Loops(walked[0], *walked, ELEMENT) if walked[0].shape == walked[1].shape else None


def _walked(source: Tensor, target: Tensor, inner: Sequence[int], kept: Sequence[int],
            limits: Limits) -> tuple[Access, Access] | None:
    """Source and target with the dimensions that are kept as C and the others as D, H, W; None where that cannot be, or
    the two rows of statistics would take too much of L2."""
    most = min(limits.channels, limits.l2_size // SHARE // (2 * ELEMENT))
    planes = _planes(source, target, kept, limits.channels)
    loops = [pixel_loops(t.only(inner), limits.width) for t in (source, target)]
    if planes is None or loops[0] is None or loops[1] is None or planes[0][0] > most:
        return None
    return _access(source, planes[0], loops[0]), _access(target, planes[1], loops[1])


def _planes(source: Tensor, target: Tensor, kept: Sequence[int], limit: int) -> list[tuple[int, int]] | None:
    """(extent, stride) of C in source and target: the one dimension that is kept, or a batch and its planes."""
    if len(kept) < 2:
        return [(t.shape[kept[0]], t.strides[kept[0]]) if kept else (1, 0) for t in (source, target)]
    if tuple(kept) != (0, plane_axis(source.rank)):
        return None
    joined = merged([t.only(kept) for t in (source, target)], limit)
    return [(t.shape[0], t.strides[0]) for t in joined] if joined[0].rank == 1 else None


def _access(tensor: Tensor, plane: tuple[int, int], pixel: Sequence[tuple[int, int]]) -> Access:
    (c, sc), (d, sd), (h, sh), (w, sw) = plane, *pixel
    return Access(space=tensor.space, slot=tensor.slot, offset=tensor.offset, shape=(1, c, d, h, w),
                  strides=(0, sc, sd, sh, sw))


def _in_steps(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int], share: float,
              epsilon: float, scale: float) -> None:
    """Mean, difference, reciprocal root of the mean square, product."""
    longest = max(axes, key=lambda axis: source.shape[axis])
    row = source.contiguous
    turned = row is not None and row not in axes
    source = source if turned else staged(context, source)
    shape = tuple(1 if d in axes else extent for d, extent in enumerate(source.shape))
    order = tuple(sorted(range(source.rank), key=lambda d: (d == row, d)))
    place = row if turned and row is not None else -1
    mean, spread = context.near(shape, place), context.near(shape, place)
    context.reduce(mean, context.with_last(source, longest) if turned else source, axes, final_scale=share)
    centred = context.scratch(source.shape, order)
    context.elementwise(centred, source, mean, subtract=True)
    context.reduce(spread, context.with_last(centred, longest) if turned else centred, axes,
                   final_scale=share / scale ** 2, epsilon=epsilon / scale ** 2, root=Root.RSQRT, square=True)
    context.elementwise(target, centred, spread, Binary.MULTIPLY)
