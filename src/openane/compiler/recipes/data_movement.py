"""Data movement: slices and joins the engine could not address as they are, reshapes that reorder rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from math import lcm, prod
from operator import mul

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, padded
from openane.compiler.loops.assign import Dims, OperandRole, access, assign, legal
from openane.compiler.recipes.context import RecipeContext
from openane.engine import Elementwise, Space
from openane.errors import UnsupportedError
from openane.ops.indexing import cut_order
from openane.ops.lowering import Tensor

CELL_BYTES = 1 << 24
"""Scratch a reshape takes at most at a time, where it can be cut."""
CELL_SHARE = 4
"""Where it is cut, the cells of a piece take at most 1/4 of L2, where they can stay beside what is read and written."""
REPEAT_SHARE = 8
"""A tensor that is repeated from L2 takes at most 1/8 of it."""
MANY_PIECES = 16
"""Where a reshape is cut into more pieces, it is made at once by turning it."""
CELL_LIMIT = 1 << 30
"""Beyond this a reshape that cannot be cut is refused."""


def part(context: RecipeContext, tensor: Tensor, axis: int, start: int, count: int, step: int = 1) -> Tensor:
    """Elements start, start + step, ... of one dimension; a row is turned into planes first where it must be cut."""
    seen = tensor.part(axis, start, count, step)
    if seen.aligned:
        return seen
    turned = context.scratch(tensor.shape, cut_order(tensor.shape, (axis,)), tensor.dtype)
    context.copy(tensor, turned)
    return turned.part(axis, start, count, step)


@contextmanager
def writable(context: RecipeContext, target: Tensor, dims: Dims) -> Iterator[Tensor]:
    """The target where the engine can write it with `dims` as N, C, D, H, W; else scratch that is copied to it when the
    block ends."""
    place = target if legal(access(target, dims), OperandRole.RESULT, context.limits) else context.scratch(target.shape)
    yield place
    if place is not target:
        context.copy(place, target)


def _without_repeats(tensor: Tensor) -> tuple[Tensor, list[bool]]:
    """What a tensor repeats, and along which dimensions it does."""
    zero = [extent > 1 and stride == 0 for extent, stride in zip(tensor.shape, tensor.strides, strict=True)]
    shape = tuple(1 if repeats else extent for repeats, extent in zip(zero, tensor.shape, strict=True))
    return tensor.seen(tensor.offset, shape, tensor.strides), zero


def _repeats_groups(dims: Dims, repeats: Sequence[bool]) -> bool:
    """Whether N walks a dimension that repeats."""
    return dims[0] is not None and repeats[dims[0]]


def repeat(context: RecipeContext, source: Tensor, target: Tensor, relu: bool) -> bool:
    """target = source, a tensor of memory repeated along some dimensions, in one planar task; False, with nothing done,
    where that cannot be.

    The task keeps what it reads in L2, where a planar operand may repeat (Apple's tiles of one row).
    """
    core, zero = _without_repeats(source)
    if source.space is not Space.MEMORY or not (source.aligned and target.aligned) or core.contiguous is None:
        return False
    order = (*(d for d in range(core.rank) if d != core.contiguous), core.contiguous)
    alignment = context.limits.l2_alignment
    size, strides = padded(core.shape, alignment, order, core.element)
    near = Tensor(context.blocks.add(VirtualBuffer(size, BufferKind.L2)), 0, core.shape, strides, alignment, Space.L2,
                  core.dtype)
    dims = assign([near.expand(source.shape), target], [OperandRole.PLANAR_SOURCE, OperandRole.RESULT], context.limits)
    if dims is None or size > context.limits.l2_size // REPEAT_SHARE or _repeats_groups(dims, zero) \
            or not legal(access(core, dims), OperandRole.PLANAR_SOURCE, context.limits):
        return False
    read = replace(access(source, dims), copy=access(near, dims))
    context.emit(Elementwise(first=read, result=access(target, dims), relu=relu))
    return True


def join(context: RecipeContext, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
    """target = parts side by side along `axis`; through a turned copy where a part would not start aligned."""
    places, start = [], 0
    for source in parts:
        places.append((start, source.shape[axis]))
        start += source.shape[axis]
    whole = target
    if not all(target.part(axis, at, count).aligned for at, count in places):
        whole = context.scratch(target.shape, cut_order(target.shape, (axis,)), target.dtype)
    for source, (at, count) in zip(parts, places, strict=True):
        context.copy(source, whole.part(axis, at, count))
    if whole is not target:
        context.copy(whole, target)


def reshape(context: RecipeContext, source: Tensor, target: Tensor) -> None:
    """target = source in row-major order. Where no view expresses it every element passes through a cell of its
    own, as large as what memory accesses are aligned to: cells can be walked with any strides, so the reshape happens
    between writing and reading them. Where that would be in many pieces, it is turned instead."""
    viewed = _view(source, target)
    if viewed is not None:
        context.copy(*viewed)
        return
    cell = context.limits.memory_alignment
    cells, together = cell * source.elements, context.limits.l2_size // (CELL_SHARE * cell)
    pieces = _common_split(source, target, together) if cells > CELL_BYTES else None
    if pieces is not None:
        if len(pieces) > MANY_PIECES and _turn(context, source, target):
            return
        if not all(piece.aligned for piece, _ in pieces):  # rows of fresh memory are
            pieces = _common_split(context.copied(source), target, together) or pieces
        for piece, place in pieces:
            reshape(context, piece, place)
        return
    if cells > CELL_LIMIT:
        raise UnsupportedError(context.label, "a reshape that reorders rows must fit the scratch memory it needs",
                               limit=CELL_LIMIT, found=cells,
                               remedy="keep the last dimension, or make it a multiple of "
                               f"{context.limits.memory_alignment // source.element} elements")
    spread = context.scratch(source.shape, (*range(source.rank), -1), source.dtype)
    context.copy(source, spread)
    seen = spread.reshape(target.shape)
    assert seen is not None, "cells can be reshaped to anything"
    context.copy(seen, target)


def _view(source: Tensor, target: Tensor) -> tuple[Tensor, Tensor] | None:
    """Both in one shape, where a view of one of them has that of the other."""
    for seen, place in ((source.reshape(target.shape), target), (source, target.reshape(source.shape))):
        if seen is not None and place is not None:
            return seen, place
    return None


def _turn(context: RecipeContext, source: Tensor, target: Tensor) -> bool:
    """target = source between two copies that turn them: with leading elements that the reshape keeps apart as rows,
    every other shape of what is behind them is a view. False, with nothing done, where the copies cannot be."""
    rows = context.limits.memory_alignment // source.element
    for kept in sorted({*accumulate(source.shape, mul), *accumulate(target.shape, mul)}):
        before, after = _behind(source.shape, kept), _behind(target.shape, kept)
        if kept < rows or before is None or after is None:
            continue
        turned = context.scratch((kept, *before), (*range(1, len(before) + 1), 0), source.dtype)
        seen = turned.reshape((kept, *after))
        assert seen is not None, "planes of fresh memory follow each other"
        first, second = _view(source, turned), _view(seen, target)
        if first is not None and second is not None:
            context.copy(*first)
            context.copy(*second)
            return True
    return False


def _behind(shape: Sequence[int], kept: int) -> tuple[int, ...] | None:
    """The dimensions behind the first `kept` elements of a shape, which may be part of a dimension; None where a shape
    cannot be cut there, or nothing is behind."""
    for at, extent in enumerate(shape):
        if kept < extent or kept % extent:
            return (extent // kept, *shape[at + 1:]) if extent % kept == 0 and prod(shape[at:]) > kept else None
        kept //= extent
    return None


def _kept(one: Sequence[int], other: Sequence[int]) -> tuple[int, int] | None:
    """How many leading dimensions of either shape have the same elements, the fewest that are more than one; None where
    that is all there is."""
    outer, inner = 0, 0
    left = right = 1
    while outer < len(one) and inner < len(other):
        if left <= right:
            left *= one[outer]
            outer += 1
        else:
            right *= other[inner]
            inner += 1
        if left == right > 1 and outer < len(one) and inner < len(other):
            return outer, inner
    return None


def _common_split(source: Tensor, target: Tensor, together: int) -> list[tuple[Tensor, Tensor]] | None:
    """Pairs of (source, target) pieces of a reshape that keeps leading dimensions apart, or None. A piece has one
    position of these, or, where that is no view, as many as have no more than `together` elements."""
    best = _kept(source.shape, target.shape)
    if best is None:
        return None
    first, place = next(_runs(source, best[0], 1)), next(_runs(target, best[1], 1))
    count = 1 if _view(first, place) is not None else _most_together(
        source.shape[:best[0]], target.shape[:best[1]], together // first.elements)
    return list(zip(_runs(source, best[0], count), _runs(target, best[1], count), strict=True))


def _most_together(one: Sequence[int], other: Sequence[int], most: int) -> int:
    """The largest number of elements up to `most`, at least 1, in runs of which two shapes of as many elements can both
    be cut, every run a box. The last run may be shorter where it is cut from the first dimension of both."""
    rows = lcm(*(prod(shape[1:]) for shape in map(_without_units, (one, other))))
    return max(most // rows * rows, *(count for count in _run_lengths(one) & _run_lengths(other) if count <= most), 1)


def _without_units(shape: Sequence[int]) -> Sequence[int]:
    return [extent for extent in shape if extent > 1]


def _run_lengths(shape: Sequence[int]) -> set[int]:
    """How many elements that follow each other can be cut out of a shape, as a box, so that nothing is left over."""
    lengths, inner = {1}, 1
    for extent in reversed(shape):
        lengths |= {inner * count for count in range(1, extent + 1) if extent % count == 0}
        inner *= extent
    return lengths


def _runs(tensor: Tensor, rank: int, count: int) -> Iterator[Tensor]:
    """A tensor cut into runs of `count` elements of its first `rank` dimensions, see `_most_together`."""
    if rank == 0:
        yield tensor
        return
    extent, inner = tensor.shape[0], prod(tensor.shape[1:rank])
    if count == 1 or count < inner:
        for position in range(extent):
            yield from _runs(tensor.at(0, position), rank - 1, count)
    else:
        rows = count // inner
        for start in range(0, extent, rows):
            yield tensor.part(0, start, min(rows, extent - start))
