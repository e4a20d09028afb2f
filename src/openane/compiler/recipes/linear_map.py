"""Linear maps along one dimension, as 1x1 convolutions whose channels are that dimension."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openane.compiler.loops.assign import row_cut
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.gather import turned
from openane.ops.lowering import Tensor

WHOLE = 1 << 16
"""Elements of a matrix that is used in one piece; larger ones are cut into blocks of rows, most of which need few
columns when results depend on neighbours only."""
CUTS = 2
"""Places where a result's row may be cut that a block takes, so that blocks start aligned."""


def mix(context: RecipeContext, target: Tensor, source: Tensor, axis: int, matrix: np.ndarray) -> None:
    """target = matrix [results, elements] times source along `axis`; see ops.lowering.Lowering.

    The dimension is read as channels, so rows must run along another one: a source whose rows run along it is copied
    first. The result may have its rows along it (the engine writes channels as rows).
    """
    source = turned(context, source, axis)
    rows, columns = matrix.shape
    size = rows if matrix.size <= WHOLE else CUTS * row_cut(context.limits)
    for start in range(0, rows, size):
        block = matrix[start:start + size]
        used = np.flatnonzero(block.any(axis=0))
        low, high = (int(used[0]), int(used[-1]) + 1) if len(used) else (0, 1)
        low = 0 if high - low > columns * 3 // 4 else low
        high = columns if low == 0 and high > columns * 3 // 4 else high
        weights = block[:, low:high].reshape(len(block), high - low, 1, 1)
        place, part = target.part(axis, start, len(block)), source.part(axis, low, high - low)
        for write, read in _images(context, place, part, axis):
            context.convolution(write, read, weights, None)


def _images(context: RecipeContext, target: Tensor, source: Tensor, axis: int) -> Iterator[tuple[Tensor, Tensor]]:
    """(target, source) as [N, axis, H, W] tensors; what is beyond them, or field widths, is taken apart."""
    if source.rank > 4:
        fewer = _merged(target, source, axis)
        if fewer is None:
            kept = {axis, source.contiguous, target.contiguous}
            outer = min((d for d in range(source.rank) if d not in kept), key=lambda d: source.shape[d])
            for i in range(source.shape[outer]):
                write, read = target.at(outer, i), source.at(outer, i)
                yield from _images(context, write, read, axis - (outer < axis))
            return
        target, source, axis = fewer
    row = source.contiguous if source.contiguous is not None else _largest(source, axis)
    rest = [d for d in range(source.rank) if d not in (axis, row)]
    if row is not None and source.shape[row] > context.limits.width:
        half = context.limits.width // 2
        for start in range(0, source.shape[row], half):
            count = min(half, source.shape[row] - start)
            yield from _images(context, target.part(row, start, count), source.part(row, start, count), axis)
        return
    order = [*rest[:-1], axis, *rest[-1:], *([] if row is None else [row])]
    yield _image(target.transpose(order), order.index(axis)), _image(source.transpose(order), order.index(axis))


def _image(tensor: Tensor, channel: int) -> Tensor:
    """The tensor with extents of 1 added: before channels to make them the second dimension, behind them to make four
    dimensions."""
    before = 1 - channel
    after = 4 - tensor.rank - before
    shape = (*(1,) * before, *tensor.shape[:channel + 1], *(1,) * after, *tensor.shape[channel + 1:])
    strides = (*(0,) * before, *tensor.strides[:channel + 1], *(0,) * after, *tensor.strides[channel + 1:])
    return tensor.seen(tensor.offset, shape, strides)


def _merged(target: Tensor, source: Tensor, axis: int) -> tuple[Tensor, Tensor, int] | None:
    """Both with two neighbouring dimensions in one, and where the axis is then; None where strides do not allow it."""
    for d in range(source.rank - 1):
        if axis in (d, d + 1):
            continue
        sides = []
        for tensor in (target, source):
            inner = tensor.strides[d + 1] * tensor.shape[d + 1]
            if tensor.shape[d] > 1 and tensor.shape[d + 1] > 1 and tensor.strides[d] != inner:
                break
            stride = tensor.strides[d + 1] if tensor.shape[d + 1] > 1 else tensor.strides[d]
            shape = (*tensor.shape[:d], tensor.shape[d] * tensor.shape[d + 1], *tensor.shape[d + 2:])
            sides.append(tensor.seen(tensor.offset, shape, (*tensor.strides[:d], stride, *tensor.strides[d + 2:])))
        if len(sides) == 2:
            return sides[0], sides[1], axis - (d < axis)
    return None


def _largest(tensor: Tensor, axis: int) -> int | None:
    return max((d for d in range(tensor.rank) if d != axis), key=lambda d: tensor.shape[d], default=None)
