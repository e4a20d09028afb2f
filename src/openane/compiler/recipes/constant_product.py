"""Matrix products with constant weights, as 1x1 convolutions whose pixels are the rows.

The rows [M, K] become M pixels of K channels: one row of M pixels or, where that pays, H rows of 8. Apple's compiler
does so with 16 to 64 rows before products with many columns. Products that follow each other stay in that form.
"""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.loops.assign import Dims, OperandRole, access, legal
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.neural_ops import chunks, coefficients, head_of, spans, with_table
from openane.compiler.recipes.split_product import reduction_parts, summed
from openane.compiler.weights.pack import pack_dense
from openane.engine import Access, Convolution, PassThrough, Post, Space
from openane.engine.access import WIDTH
from openane.engine.table import Table
from openane.graph import Value
from openane.ops import get_op
from openane.ops.lowering import ELEMENT, Tensor
from openane.ops.shaped import written_as
from openane.record_classes import dataclass
from openane.rounding import ceil_div

PIXELS = (None, 2, None, 0, 1)
"""How the neural engine walks a tensor [H, W, channels]."""


@dataclass(frozen=True, slots=True)
class Pixels:
    """Rows of a matrix as the pixels [H, W, channels] a neural-engine task reads, W contiguous; with `interleave` I
    channels lie in memory in blocks of I (`tensor.strides` then count W in cells of I elements, channels in blocks)."""

    tensor: Tensor
    interleave: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """H, W, channels."""
        return self.tensor.shape

    def channels(self, start: int, count: int) -> Pixels:
        """Some of the channels; `start` is a multiple of the interleave."""
        tensor = self.tensor
        place = tensor.offset + start // self.interleave * tensor.strides[2]
        return Pixels(tensor.seen(place, (*tensor.shape[:2], count), tensor.strides), self.interleave)

    def read(self, first: int, count: int) -> Access:
        """The operand that walks columns first .. first + count."""
        return access(self.tensor.part(1, first, count), PIXELS, self.interleave)


def rows_product(context: RecipeContext, value: Value, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
                 post: Post | None = None, table: Table | None = None) -> None:
    """value = source @ weights [K, N] + bias. The source is [M, K], or pixels [H, W, K] with W contiguous.

    A result that only another such product reads is left as pixels.
    """
    rows, columns = prod(source.shape[:-1]), weights.shape[1]
    pixels = _pixels(context, source, columns)
    height, width, _ = pixels.shape
    if feeds_product(context, value):
        made = context.scratch((height, width, columns), (2, 0, 1))
        _convolve(context, made, pixels, weights, bias, post, table)
        context.bind(value, made if height > 1 else _flat(made), value.shape)
        return
    place = context.result(value)
    if height > 1 and rows * columns * ELEMENT <= context.limits.l2_size // 4:
        made = context.temporary((rows, columns), (0, 1), Space.L2)
        _convolve(context, _split(made, height), pixels, weights, bias, post, table)
        _settle(context, value, place, made)
        return
    with written_as(context, place, (rows, columns)) as target:
        _convolve(context, _split(target, height), pixels, weights, bias, post, table)


def product(context: RecipeContext, target: Tensor, source: Tensor, weights: np.ndarray, bias: np.ndarray | None,
            post: Post | None = None, table: Table | None = None) -> None:
    """target [M, N] = source [M, K] @ weights [K, N] + bias."""
    pixels = pixel_rows(context, source)
    _convolve(context, _split(target, 1), pixels, weights, bias, post, table)


def pixel_rows(context: RecipeContext, source: Tensor) -> Pixels:
    """A matrix [M, K] as pixels [1, M, K]: as it lies where its rows can be read as channels, else turned."""
    if legal(access(source, (None, 1, None, None, 0)), OperandRole.NEURAL_SOURCE, context.limits):
        return Pixels(_split(source, 1))
    return _turned(context, source, 1)


def _pixels(context: RecipeContext, source: Tensor, columns: int) -> Pixels:
    if source.rank == 3:
        return Pixels(source)
    rows, reduction = source.shape
    height = context.limits.lanes.split_height(rows, reduction, columns)
    if height == 1:
        return pixel_rows(context, source)
    if legal(access(source, (None, 1, None, None, 0)), OperandRole.NEURAL_SOURCE, context.limits):
        near = context.temporary(source.shape, (0, 1), Space.L2)
        context.copy(source, near)
        source = near
    return _turned(context, source, height)


def _turned(context: RecipeContext, source: Tensor, height: int) -> Pixels:
    """[M, K] copied to pixels [H, W, K]: in L2 when they take at most 5/8 of it (seen: 1.03 MiB), else in memory with
    channels in blocks.

    Strides in L2 as Apple writes them: a channel is an odd number of 16-byte cells, a row of pixels adds the cells of
    one channel and 16 / H.
    """
    source = source if source.aligned else context.copied(source)
    rows, channels = source.shape
    width = rows // height
    line = context.limits.l2_alignment
    cells = ceil_div(width * ELEMENT, line)
    cells += cells % 2 == 0
    row = channels * cells + (0 if height == 1 else cells + line // height)
    if row * height * line > context.limits.l2_size * 5 // 8:
        return _in_blocks(context, source)
    slot = context.blocks.add(VirtualBuffer(row * height * line, BufferKind.L2))
    pixels = Tensor(slot, 0, (height, width, channels), (row * line, ELEMENT, cells * line), line, Space.L2)
    if height == 1:
        context.copy(_split(source, 1), pixels)
    else:
        _pass(context, _split(source, height), pixels, (None, 1, None, 0, 2))
    return Pixels(pixels)


def _in_blocks(context: RecipeContext, source: Tensor) -> Pixels:
    """[M, K] copied to memory as pixels [1, M, K], channels in blocks: the copy writes columns of what it reads in
    blocks (Apple's turned operands of 8 MiB)."""
    (rows, channels), limits = source.shape, context.limits
    block = limits.lanes.block
    cell = block * ELEMENT
    if source.strides[1] != ELEMENT or not legal(access(source, (None, 0, None, None, 1)), OperandRole.NEURAL_SOURCE,
                                                 limits):
        source = context.copied(source)
    plane = limits.memory_row(rows * cell)
    slot = context.blocks.add(VirtualBuffer(ceil_div(channels, block) * plane, BufferKind.SCRATCH))
    for first, count in spans(rows, context.limits.channels):
        for start, width in spans(channels, context.limits.width):
            read = source.part(0, first, count).part(1, start, width)
            place = start // block * plane + first * cell
            write = Access(slot=slot, offset=place, shape=(1, count, 1, 1, width), strides=(0, cell, 0, 0, plane),
                           interleave=block, packed=WIDTH)
            context.emit(PassThrough(source=access(read, (None, 0, None, None, 1)), result=write))
    return Pixels(Tensor(slot, 0, (1, rows, channels), (0, cell, plane), limits.memory_alignment), block)


def _convolve(context: RecipeContext, target: Tensor, pixels: Pixels, weights: np.ndarray, bias: np.ndarray | None,
              post: Post | None, table: Table | None) -> None:
    """target [H, W, N] = pixels [H, W, K] @ weights [K, N] + bias."""
    (height, width, reduction), columns = pixels.shape, weights.shape[1]
    parts = reduction_parts(context, reduction, width)
    if len(parts) > 1:
        summed(context, target, [
            partial(_convolve, context, pixels=pixels.channels(start, count), weights=weights[start:start + count],
                    bias=bias if start == 0 else None, post=None, table=None) for start, count in parts], post, table)
        return
    final, rows = target, height * width
    if not legal(access(target, PIXELS), OperandRole.RESULT, context.limits):
        target = context.scratch(target.shape)
    rules, form = context.limits.lanes, context.limits.coefficients
    turned = target.strides[2] == ELEMENT or rows > rules.streamed
    lanes = rules.product(rows, reduction, columns) if turned else rules.convolution(columns, height, width, reduction)
    matrix = weights.T[None]
    for start, stop in chunks(context, columns, reduction + (bias is not None), lanes, rows <= rules.streamed,
                              0 if table is None else form.table.size):
        packed = pack_dense(form, matrix[:, start:stop], None if bias is None else bias[None, start:stop], lanes,
                            head_of(context, table))
        streams = coefficients(context, packed, bias=bias is not None, table=table)
        for first, count in spans(width, context.limits.width):
            write = target.part(2, start, stop - start).part(1, first, count)
            context.emit(Convolution(source=pixels.read(first, count), result=access(write, PIXELS),
                                     coefficients=streams, post=with_table(post, table)))
    if target is not final:
        context.copy(target, final)


def _settle(context: RecipeContext, value: Value, place: Tensor, made: Tensor) -> None:
    """What was made in L2 as [M, N] goes to its port, or stays as the value."""
    if not context.blocks.is_port(place.slot):
        context.bind(value, made, value.shape)
        return
    seen = place.reshape(made.shape)
    if seen is None:
        context.reshape(made, place)
    else:
        _pass(context, made, seen, (None, 0, None, None, 1))


def _pass(context: RecipeContext, source: Tensor, target: Tensor, dims: Dims) -> None:
    """target = source, walked so where both can be."""
    read, write = access(source, dims), access(target, dims)
    limits = context.limits
    if source.shape[-1] <= limits.width and legal(read, OperandRole.NEURAL_SOURCE, limits) \
            and legal(write, OperandRole.RESULT, limits):
        context.emit(PassThrough(source=read, result=write))
    else:
        context.copy(source, target)


def feeds_product(context: RecipeContext, value: Value) -> bool:
    """Whether one product with constant weights is all that reads the rows of `value`."""
    user = context.only_user(value)
    if user is None or user.get("x") is not value:
        return False
    product = get_op(user.op).product
    return product is not None and product.axis == -1 and product.form(user, user.output.name) is not None


def _split(matrix: Tensor, height: int) -> Tensor:
    """[M, N] as [H, M / H, N]."""
    rows, columns = matrix.shape
    return matrix.seen(matrix.offset, (height, rows // height, columns),
                       (matrix.strides[0] * (rows // height), matrix.strides[0], matrix.strides[1]))


def _flat(pixels: Tensor) -> Tensor:
    """[1, M, N] as [M, N]."""
    return pixels.seen(pixels.offset, pixels.shape[1:], pixels.strides[1:])
