"""Reductions over any axes. The engine reduces D, H and W of each (N, C); where the row (W) is not reduced, the tensor
is transposed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, padded
from openane.compiler.loops.assign import MAXIMUM_OPERATIONS, OperandRole, access, assign, legal, merged
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.neural_ops import channel_step, table_coefficients
from openane.engine import (
    Access,
    Activation,
    Binary,
    ChannelMaximum,
    ChannelProduct,
    Convolution,
    Post,
    Reduce,
    Reduction,
    Root,
    Space,
)
from openane.engine.table import Table
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor, plane_axis
from openane.record_classes import dataclass
from openane.rounding import ceil_div

SHARE = 8


@dataclass(frozen=True, slots=True)
class Folding:
    """What a reduction does to each element, how it folds them, and what closes it (fields of engine.Reduction)."""

    kind: Reduce
    pre_scale: float
    square: bool
    closing: dict[str, Any]

    @property
    def only_maximum(self) -> bool:
        """Whether it is a maximum and nothing else."""
        idle = {"final_scale": 1.0, "epsilon": 0.0, "root": Root.NONE}
        return self.kind is Reduce.MAXIMUM and self.pre_scale == 1.0 and not self.square and \
            all(idle[name] == value for name, value in self.closing.items())


def reduce(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int], kind: Reduce = Reduce.SUM,
           pre_scale: float = 1.0, final_scale: float = 1.0, epsilon: float = 0.0, root: Root = Root.NONE,
           square: bool = False) -> None:
    """See ops.lowering.Lowering. Factors and epsilon are rounded to what the fields hold."""
    closing: dict[str, Any] = {"final_scale": float(np.float32(final_scale)), "epsilon": float(np.float16(epsilon)),
                               "root": root}
    fold(context, target, source, axes, Folding(kind, pre_scale, square, closing))


def fold(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int], folding: Folding) -> None:
    """Reduces `axes` of source; target has extent 1 there."""
    source = source if source.aligned else context.copied(source)
    if not target.aligned:
        whole = context.scratch(target.shape)
        _fold(context, whole, source, axes, folding)
        context.copy(whole, target)
    else:
        _fold(context, target, source, axes, folding)


def _fold(context: RecipeContext, target: Tensor, source: Tensor, axes: Sequence[int], folding: Folding) -> None:
    """The same for tensors the engine can address."""
    inner = [d for d in axes if source.shape[d] > 1]
    row = source.contiguous
    if folding.only_maximum and inner == [plane_axis(source.rank)] and inner[0] != row \
            and max_planes(context, target, source, inner[0]):
        return
    if row is not None and row not in inner:
        if not inner:
            _identity_reduction(context, target, source, folding)
            return
        if _by_cells(context, target, source, inner, folding):
            return
        source = context.with_last(source, max(inner, key=lambda d: source.shape[d]))
    row = source.contiguous
    kept = sorted({d for d in range(source.rank) if source.shape[d] > 1}.difference(inner))
    inner.sort(key=lambda d: (d == row, d))
    _reduce(context, target, source, inner, kept, folding)


def max_planes(context: RecipeContext, target: Tensor, source: Tensor, axis: int) -> bool:
    """A maximum over planes is one neural-engine operation that leaves rows as they lie; False where strides or
    field widths rule it out."""
    operands = _by_channel(context, target, source, axis)
    if operands is None:
        return False
    context.emit(ChannelMaximum(source=operands[0], result=operands[1], channels=source.shape[axis]))
    return True


def sum_planes(context: RecipeContext, target: Tensor, source: Tensor, axis: int, table: Table) -> bool:
    """target = table(sum over `axis`) by a dense convolution with weights of one into a single channel, as Apple's
    softmax does; False where strides or field widths rule it out."""
    operands = _by_channel(context, target, source, axis)
    if operands is None:
        return False
    read, write = operands
    streams = table_coefficients(context, table, 1)
    context.emit(Convolution(source=read, result=write, shared=read.shape[0] > 1, coefficients=streams,
                             post=Post(activation=Activation.TABLE)))
    return True


def multiply_planes(context: RecipeContext, target: Tensor, first: Tensor, second: Tensor, axis: int, before: Table,
                    after: Table) -> bool:
    """target = after(before(first) * second): both laid side by side, plane by plane, and multiplied in pairs with the
    product unrounded, as Apple's pow. False, with nothing done, where strides or field widths rule it out, or the
    generation's compiler leaves the product to the planar engine."""
    count = target.shape[axis]
    shape = tuple(2 * extent if d == axis else extent for d, extent in enumerate(target.shape))
    if first.shape != target.shape or second.shape != target.shape or 2 * count > context.limits.channels \
            or not context.limits.pairs:
        return False
    pairs = context.scratch(shape)
    operands = _by_channel(context, target, pairs, axis)
    if operands is None:
        return False
    context.copy(second, pairs.part(axis, 0, count, 2))
    context.copy(first, pairs.part(axis, 1, count, 2), Post(activation=Activation.TABLE), before)
    read, write = operands
    streams = table_coefficients(context, after, count)
    context.emit(ChannelProduct(source=read, result=write, coefficients=streams,
                                post=Post(activation=Activation.TABLE)))
    return True


def _by_channel(context: RecipeContext, target: Tensor, source: Tensor, axis: int) -> tuple[Access, Access] | None:
    """Operands whose C walks `axis`, or None."""
    if source.shape[axis] > context.limits.channels or not (source.aligned and target.aligned):
        return None
    first = source.part(axis, 0, target.shape[axis])
    dims = assign([first, target], [OperandRole.NEURAL_SOURCE, OperandRole.RESULT], context.limits, channel=axis)
    read = None if dims is None else access(source, dims)
    if dims is None or read is None or not legal(read, OperandRole.NEURAL_SOURCE, context.limits):
        return None
    return read, access(target, dims)


def _by_cells(context: RecipeContext, target: Tensor, source: Tensor, inner: Sequence[int], folding: Folding) -> bool:
    """Reduces a dimension between planes and rows as Apple's compiler reduces H, sums and maxima alike: turned into
    rows, reduced with the old rows as groups into a cell per result, and turned back. False for any other."""
    plane, row = plane_axis(source.rank), source.contiguous
    if len(inner) != 1 or plane is None or row is None or plane in (*inner, row) or source.shape[plane] == 1 \
            or target.contiguous != row or target.space is not Space.MEMORY:
        return False
    (axis,) = inner
    swap, cycle = list(range(source.rank)), list(range(source.rank))
    swap[plane], swap[axis] = axis, plane
    cycle[plane], cycle[axis], cycle[row] = row, plane, axis
    cells = context.scratch(target.shape, (*(d for d in range(target.rank) if d != plane), plane, -1))
    turned = context.with_last(source.transpose(swap), plane)
    fold(context, cells.transpose(swap), turned, (plane,), folding)
    context.copy(cells.transpose(cycle), target.transpose(cycle))
    return True


def staged(context: RecipeContext, tensor: Tensor) -> Tensor:
    """A copy of an input that several operations are about to walk by different loops: small ones live in L2 from then
    on, as in Apple's softmax and layer norm over rows. An intermediate, a constant, or a tensor beyond 1/8 of L2, is
    itself."""
    size, _ = padded(tensor.shape, context.limits.l2_alignment)
    if not context.blocks.is_port(tensor.slot) or size > context.limits.l2_size // SHARE:
        return tensor
    return context.copied(tensor)


def _identity_reduction(context: RecipeContext, target: Tensor, source: Tensor, folding: Folding) -> None:
    """Reducing extents of 1: a factor, or where a root follows cells, so that no row runs along a kept dimension."""
    closing = folding.closing
    if closing.get("root", Root.NONE) is Root.NONE and not closing.get("epsilon") and not folding.square:
        context.elementwise(target, source, pre_scale=folding.pre_scale, scale=closing.get("final_scale", 1.0))
        return
    cells = context.scratch(source.shape, (*range(source.rank), -1))
    context.copy(source, cells)
    kept = [d for d in range(source.rank) if source.shape[d] > 1]
    _reduce(context, target, cells, [], kept, folding)


def _reduce(context: RecipeContext, target: Tensor, source: Tensor, inner: list[int], kept: list[int],
            folding: Folding) -> None:
    loops = pixel_loops(source.only(inner), context.limits.width)
    if loops is None:
        _reduce_in_steps(context, target, source, inner, folding)
        return
    for read, write in _kept_loops(context, source.only(kept), target.only(kept)):
        shape = (*read.shape[:2], *(extent for extent, _ in loops))
        strides = (*read.strides[:2], *(stride for _, stride in loops))
        first = Access(space=read.space, slot=read.slot, offset=read.offset, shape=shape,  # type: ignore[arg-type]
                       strides=strides)  # type: ignore[arg-type]
        context.emit(Reduction(first=first, result=_kept(context, write), reduce=folding.kind,
                               function=Binary.SQUARE_SUM if folding.square else Binary.ADD,
                               pre_scale=folding.pre_scale, **folding.closing))


def _kept(context: RecipeContext, result: Access) -> Access:
    """A result written to a port with channels along rows also stays in L2, one row over the other, as in Apple's
    reductions of C."""
    port = result.space is Space.MEMORY and context.blocks.is_port(result.slot)
    large = result.elements * ELEMENT > context.limits.l2_size // SHARE
    if not port or large or result.shape[1] == 1 or result.strides[1] != ELEMENT:
        return result
    slot = context.blocks.add(VirtualBuffer(context.limits.l2_row(result.shape[1] * ELEMENT), BufferKind.L2))
    return replace(result, copy=Access(space=Space.L2, slot=slot, shape=result.shape, strides=(0, ELEMENT, 0, 0, 0)))


def pixel_loops(walked: Tensor, limit: int) -> list[tuple[int, int]] | None:
    """(extent, stride) of D, H and W that visit all of `walked`, whose last dimension is the row if it has one; None
    where no three loops up to `limit` do.

    Apple's compiler leaves dimensions apart while they fit: over C, H, W of a tensor it walks H as D and C as H.
    """
    rows = walked.rank > 0 and walked.strides[-1] == ELEMENT
    loops = list(zip(walked.shape, walked.strides, strict=True))
    if len(loops) - rows > 2 or any(extent > limit for extent, _ in loops):
        (folded,) = merged([walked], limit)
        loops = list(zip(folded.shape, folded.strides, strict=True))
    outer, inner = (loops[:-1], loops[-1]) if rows else (loops, (1, 0))
    if len(outer) > 2 or any(extent > limit for extent, _ in loops):
        return None
    outer = [*outer, (1, 0), (1, 0)]
    return [outer[1], outer[0], inner]


def _kept_loops(context: RecipeContext, source: Tensor, target: Tensor) -> list[tuple[Access, Access]]:
    """N and C of the operations that together visit the dimensions kept: C walks the target's rows if it has any."""
    if source.rank > 2:
        source, target = merged([source, target], min(context.limits.groups, context.limits.channels))
    rank = source.rank
    if rank > 2:
        axis = min((d for d in range(rank) if d != target.contiguous), key=lambda d: source.shape[d])
        count = source.shape[axis]
        if count > MAXIMUM_OPERATIONS:
            raise UnsupportedError(context.label, "a reduction keeps too many separate dimensions",
                                   limit=MAXIMUM_OPERATIONS, found=count)
        pieces = (_kept_loops(context, source.at(axis, i), target.at(axis, i)) for i in range(count))
        return list(chain.from_iterable(pieces))
    return _kept_plane(context, source, target)


def _kept_plane(context: RecipeContext, source: Tensor, target: Tensor) -> list[tuple[Access, Access]]:
    """The same of at most two dimensions, halved until they are within the limits."""
    rank = source.rank
    plane = target.contiguous if target.contiguous is not None else 0
    dims = (next((d for d in range(rank) if d != plane), None), plane if rank else None, None, None, None)
    limit = (context.limits.groups, context.limits.channels)
    for d, bound in zip(dims[:2], limit, strict=True):
        if d is not None and source.shape[d] > bound:
            half = source.shape[d] // 2 // channel_step(context) * channel_step(context)
            return [p for start, count in ((0, half), (half, source.shape[d] - half))
                    for p in _kept_plane(context, source.part(d, start, count), target.part(d, start, count))]
    return [(access(source, dims), access(target, dims))]


def _reduce_in_steps(context: RecipeContext, target: Tensor, source: Tensor, inner: list[int],
                     folding: Folding) -> None:
    """Partial results first, along one dimension, then the rest; what closes the reduction is applied at the end,
    the scale of a sum at the start, where it keeps partial sums small."""
    first, last = _two_stages(folding)
    axis = inner[-1]
    width = context.limits.width
    pieces = ceil_div(source.shape[axis], width)
    shape = tuple(pieces if d == axis else extent for d, extent in enumerate(source.shape))
    partial = context.scratch(shape, (*range(len(shape)), -1))
    for piece in range(pieces):
        start = piece * width
        read = source.part(axis, start, min(width, source.shape[axis] - start))
        fold(context, partial.part(axis, piece, 1), read, [axis], first)
    fold(context, target, partial, inner if pieces > 1 else inner[:-1], last)


def _two_stages(folding: Folding) -> tuple[Folding, Folding]:
    closing = dict(folding.closing)
    scale = closing.pop("final_scale", 1.0) if folding.kind is Reduce.SUM else 1.0
    return (Folding(folding.kind, folding.pre_scale, folding.square, {"final_scale": scale}),
            Folding(folding.kind, 1.0, False, closing))
