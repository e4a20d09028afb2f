"""Matrix products of two tensors that the program computes itself: the rows of the left one serve as coefficients.

With one row per core the coefficients can be read as they lie. With L rows per core, a copy first writes the rows
interleaved by L, which is how coefficients for L lanes are packed. One such copy does all matrices of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import product as combinations
from math import prod

from openane.chips import Limits
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.loops.assign import OperandRole, access, legal, row_cut
from openane.compiler.loops.split import ranges
from openane.compiler.recipes.constant_product import Pixels, feeds_product, pixel_rows
from openane.compiler.recipes.context import RecipeContext
from openane.compiler.recipes.grouped_product import grouped_product
from openane.compiler.recipes.neural_ops import spans
from openane.compiler.recipes.split_product import reduction_parts, summed
from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Elementwise,
    MatrixProduct,
    PassThrough,
    Post,
    Space,
    Streams,
)
from openane.engine.access import CHANNELS, WIDTH, plain_access
from openane.graph import Value
from openane.ops.lowering import ELEMENT, Tensor
from openane.ops.shaped import written_as
from openane.record_classes import dataclass
from openane.rounding import round_up

MANY_PARTS = 128
TURN_PAYS = 16
"""A product of more parts than MANY_PARTS is turned when it has this many times more rows than columns."""
SEPARATE = 16
"""Matrices of a batch up to which each is turned, or packed, on its own where one copy cannot do them all as they lie;
more are first copied together (Apple's programs turn the keys of 12 heads one by one; the bound is inferred)."""
TURNS = 2
"""Copies that turning a product may take: an operand, and the result."""
IMAGES = (0, 1, None, 2, 3)
"""How [N, C, H, W] are walked."""
ROWS, COLUMNS = (None, 0, None, None, 1), (None, 1, None, None, 0)
"""How the neural engine walks a matrix whose rows, or columns, are channels."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Coefficients of all matrices of a batch: the place of matrix b, row m (in blocks of `lanes`) in `slot`."""

    slot: int
    offset: int
    batch_strides: tuple[int, ...]
    step: int
    size: int
    lanes: int

    def matrix(self, index: tuple[int, ...]) -> int:
        """Where one matrix begins."""
        return self.offset + sum(i * stride for i, stride in zip(index, self.batch_strides, strict=True))

    def part(self, matrix: int, start: int, count: int) -> Coefficients:
        """Coefficients of rows start .. start + count of the matrix that begins there."""
        base = matrix + start // self.lanes * self.step
        streams = _streams(count // self.lanes, self.step, self.size)
        return Coefficients(weights=CoefficientSection(self.slot, Streams(streams, base)), lanes=self.lanes,
                            runtime=True)


@lru_cache(maxsize=64)
def _streams(cores: int, step: int, size: int) -> tuple[CoefficientStream, ...]:
    """Streams of `size` bytes every `step` bytes. Remembered: the parts of a product share them."""
    return tuple(CoefficientStream(core, core * step, size) for core in range(cores))


def product_of(context: RecipeContext, value: Value, left: Tensor, right: Tensor, post: Post | None = None) -> None:
    """value = post(left [..., M, K] @ right [..., K, N]); batch dimensions equal, strides of 0 repeat.

    Where a product with constant weights alone reads the result it is made transposed, so that rows are pixels already
    (in Apple's transformer blocks the context takes width / 128 products, the rows being those of v).
    """
    shape = (*left.shape[:-1], right.shape[-1])
    if prod(shape[:-2]) == 1 and feeds_product(context, value):
        made = context.scratch(shape[-2:], (1, 0))
        single = (0,) * (len(shape) - 2)
        runtime_product(context, _turned(made), _turned(_at(right, single)), _turned(_at(left, single)), post)
        context.bind(value, made, value.shape)
        return
    with written_as(context, context.result(value), shape) as target:
        runtime_product(context, target, left, right, post)


def _reduction_parts(context: RecipeContext, left: Tensor, right: Tensor) -> Sequence[tuple[int, int]]:
    """Parts of the reduction that the engine can sum, and the copy that packs coefficients can walk as W."""
    pieces = reduction_parts(context, left.shape[-1], right.shape[-1])
    if pieces[0][1] > context.limits.width:
        return list(ranges(left.shape[-1], context.limits.width, row_cut(context.limits)))
    return pieces


def runtime_product(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor,
                    post: Post | None = None) -> None:
    """target [..., M, N] = post(left [..., M, K] @ right [..., K, N]); batch dimensions equal, strides of 0 repeat.

    Last matrix first and last rows first, as in every one of Apple's programs. Where that would be hundreds of
    operations and few with the columns of `right` as coefficients, the result is made transposed.
    """
    pieces = _reduction_parts(context, left, right)
    if _at_once(context, target, left, right, post, len(pieces)):
        return
    rules = context.limits.lanes
    lanes = rules.runtime_product(left.shape[-2])
    parts = list(rules.row_parts(left.shape[-2], lanes))
    if len(parts) > MANY_PARTS and right.shape[-1] * TURN_PAYS <= left.shape[-2]:
        runtime_product(context, _turned(target), _turned(right), _turned(left), post)
        return
    if len(pieces) > 1:
        summed(context, target, [
            partial(runtime_product, context, left=_range(context, left, left.rank - 1, start, count),
                    right=_range(context, right, right.rank - 2, start, count)) for start, count in pieces], post)
        return
    rows = _coefficients(context, left, lanes, len(parts))
    batch = target.shape[:-2]
    if _distinct(right) > SEPARATE and not legal(
            access(_at(right, (0,) * len(batch)), ROWS), OperandRole.NEURAL_SOURCE, context.limits):
        right = context.copied(right)
    seen: dict[int, Pixels] = {}
    for index in reversed(list(combinations(*(range(extent) for extent in batch)))):
        matrix, first = _at(right, index), rows.matrix(index)
        if matrix.offset not in seen:
            seen = {matrix.offset: pixel_rows(context, matrix.transpose((1, 0)))}
        _multiply(context, _at(target, index), seen[matrix.offset], post or Post(),
                  [(start, count, rows.part(first, start, count)) for start, count in parts])


def _at_once(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post | None,
             pieces: int) -> bool:
    """A batch whose matrices need not be multiplied one by one, of a reduction in so many pieces."""
    return _together(context, target, left, right, post) \
        or (pieces == 1 and grouped_product(context, target, left, right, post))


def _together(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post | None) -> bool:
    """One product for a whole batch, where all its matrices meet the same one; False where it has to be taken apart.

    On the right: the rows of all of them are the rows of one matrix, which is made by whichever of the two has fewer
    rows as coefficients. On the left: the batch is that of a convolution (see `runtime_convolution`).
    """
    batch = target.shape[:-2]
    count, shared = prod(batch), [all(stride == 0 or extent == 1 for extent, stride in
                                      zip(batch, side.strides[:-2], strict=True)) for side in (left, right)]
    if count == 1 or not any(shared):
        return False
    alone = (0,) * len(batch)
    if shared[1]:
        rows, made = (side.reshape((count * side.shape[-2], side.shape[-1])) for side in (left, target))
        if rows is None or made is None:
            return False
        matrix = _at(right, alone)
        _fewest(context, made, rows, matrix, post)
        return True
    images, made = (side.reshape((count, side.shape[-2], 1, side.shape[-1])) for side in (right, target))
    if images is None or made is None:
        return False
    single = _at(left, alone)
    matrices = single.seen(single.offset, (1, *single.shape), (0, *single.strides))
    return runtime_convolution(context, made, matrices, images, post)


def _fewest(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post | None) -> None:
    """target [M, N] = post(left [M, K] @ right [K, N]), transposed where that takes fewer operations."""
    rules = context.limits.lanes
    straight, turned = (len(list(rules.row_parts(rows, rules.runtime_product(rows)))) for rows in target.shape)
    if turned + TURNS < straight:
        target, left, right = _turned(target), _turned(right), _turned(left)
    runtime_product(context, target, left, right, post)


def runtime_convolution(context: RecipeContext, target: Tensor, matrices: Tensor, source: Tensor,
                        post: Post | None = None) -> bool:
    """target [N, G * M, H, W] = post(1x1 convolution of source [N, G * K, H, W] with matrices [G, M, K]).

    All images in one operation, as with constant weights: groups that read the same coefficients (inferred for those
    computed at run time; Apple's products have one group). False where the extents ask for another way.
    """
    (groups, count, reduction), (images, _, height, width) = matrices.shape, source.shape
    limits = context.limits
    lanes = limits.lanes.runtime_product(count)
    parts = list(limits.lanes.row_parts(count, lanes))
    if len(parts) > MANY_PARTS or max(height, width) > limits.height or reduction > limits.width \
            or len(reduction_parts(context, reduction, width)) > 1:
        return False
    if not legal(access(source, IMAGES), OperandRole.NEURAL_SOURCE, limits):
        source = context.copied(source)
    made = target if legal(access(target, IMAGES), OperandRole.RESULT, limits) else context.scratch(target.shape)
    rows = _coefficients(context, matrices, lanes, len(parts))
    for first, some in spans(images, limits.groups):
        for group in range(groups):
            read = access(source.part(0, first, some).part(1, group * reduction, reduction), IMAGES)
            for start, extent in parts:
                write = made.part(0, first, some).part(1, group * count + start, extent)
                context.emit(MatrixProduct(source=read, coefficients=rows.part(rows.matrix((group,)), start, extent),
                                           post=post or Post(), result=access(write, IMAGES)))
    if made is not target:
        context.copy(made, target)
    return True


def _multiply(context: RecipeContext, target: Tensor, right: Pixels, post: Post,
              parts: list[tuple[int, int, Coefficients]]) -> None:
    """target [M, N] = coefficients @ right (K channels of N pixels), part after part."""
    final, columns = target, target.shape[1]
    whole = _parts(target, parts)
    if not all(legal(result, OperandRole.RESULT, context.limits) for result in whole):
        target = context.scratch(target.shape)
        whole = _parts(target, parts)
    for first, width in spans(columns, context.limits.width):
        source = right.read(first, width)
        results = whole if width == columns else _parts(target.part(1, first, width), parts)
        for result, (_, _, coefficients) in zip(results, parts, strict=True):
            context.emit(MatrixProduct(source=source, coefficients=coefficients, post=post, result=result))
    if target is not final:
        context.copy(target, final)


def _parts(target: Tensor, parts: list[tuple[int, int, Coefficients]]) -> list[Access]:
    """Where the rows of each part of a product go."""
    whole, step = access(target, ROWS), target.strides[0]
    wide, along = whole.shape[WIDTH], whole.strides[WIDTH]
    return [plain_access(whole.space, whole.slot, whole.offset + start * step, (1, count, 1, 1, wide),
                         (0, step if count > 1 else 0, 0, 0, along), whole.dtype) for start, count, _ in parts]


def _distinct(matrices: Tensor) -> int:
    """How many matrices of a batch there are, those that repeat counted once."""
    return prod(extent for extent, stride in zip(matrices.shape[:-2], matrices.strides[:-2], strict=True) if stride)


def _coefficients(context: RecipeContext, left: Tensor, lanes: int, parts: int) -> _Rows:
    """The rows of `left` where they can be read as coefficients."""
    real = tuple(1 if stride == 0 else extent for extent, stride in zip(left.shape, left.strides, strict=True))
    core = left.seen(left.offset, (*real[:-2], *left.shape[-2:]), left.strides)
    if core.space is not Space.MEMORY or not core.aligned or not _readable(core, lanes, context.limits) or \
            context.is_output(core.slot):
        core = context.copied(core)  # coefficients are not read from what the program hands out
    elif lanes > 1 and _distinct(core) > SEPARATE and core.reshape((prod(core.shape[:-2]), *core.shape[-2:])) is None:
        core = context.copied(core)
    *batch, count, reduction = core.shape
    size = round_up(reduction * lanes * ELEMENT, context.limits.coefficients.alignment)
    if lanes == 1:
        return _Rows(core.slot, core.offset, core.strides[:-2], core.strides[-2], size, 1)
    whole = count // lanes * size
    slot = context.blocks.add(VirtualBuffer(prod(batch) * whole, BufferKind.SCRATCH))
    strides = tuple(0 if extent == 1 else prod(batch[d + 1:]) * whole for d, extent in enumerate(batch))
    _interleave(context, core, slot, strides, size, lanes, parts)
    return _Rows(slot, 0, strides, size, size, lanes)


def _interleave(context: RecipeContext, rows: Tensor, slot: int, strides: tuple[int, ...], size: int, lanes: int,
                parts: int) -> None:
    """Copies matrices [..., M, K] to `slot`, blocks of `lanes` rows at distances of `size`.

    By the planar engine before a single product, by the neural engine before several (seen so with 2, 4 and 8 lanes).
    """
    *batch, count, reduction = rows.shape
    together = rows.reshape((prod(batch), count, reduction)) if 1 < prod(batch) <= context.limits.groups else None
    most = context.limits.channels // lanes * lanes
    for index in [()] if together is not None else combinations(*(range(extent) for extent in batch)):
        matrix = _at(rows, index or (0,) * len(batch))
        base = sum(i * stride for i, stride in zip(index, strides, strict=False))
        groups, read_step, write_step = (1, 0, 0) if together is None else (prod(batch), together.strides[0],
                                                                            count // lanes * size)
        for start in range(0, count, most):
            some = matrix.part(0, start, min(most, count - start))
            read, write = _packing(some, slot, base + start // lanes * size, size, lanes, context.limits)
            read = replace(read, shape=(groups, *read.shape[1:]), strides=(read_step, *read.strides[1:]))
            write = replace(write, shape=read.shape, strides=(write_step, *write.strides[1:]))
            context.emit(Elementwise(first=read, result=write) if parts == 1 and write.packed == CHANNELS
                         else PassThrough(source=read, result=write))


def _packing(rows: Tensor, slot: int, offset: int, size: int, lanes: int,
             limits: Limits) -> tuple[Access, Access]:
    """The operands of the copy that packs a matrix [M, K] stored by rows, or by columns (which it turns)."""
    count, reduction = rows.shape
    if _by_rows(rows, limits):
        return access(rows, ROWS), Access(slot=slot, offset=offset, shape=(1, count, 1, 1, reduction),
                                          strides=(0, size, 0, 0, lanes * ELEMENT), interleave=lanes)
    return access(rows, COLUMNS), Access(slot=slot, offset=offset, shape=(1, reduction, 1, 1, count),
                                         strides=(0, lanes * ELEMENT, 0, 0, size), interleave=lanes, packed=WIDTH)


def _by_rows(matrix: Tensor, limits: Limits) -> bool:
    return legal(access(matrix, ROWS), OperandRole.NEURAL_SOURCE, limits)


def _readable(matrices: Tensor, lanes: int, limits: Limits) -> bool:
    """Whether matrices can be read as coefficients, or by the copy that packs them."""
    first = _at(matrices, (0,) * (matrices.rank - 2))
    return _by_rows(first, limits) or (lanes > 1 and legal(access(first, COLUMNS), OperandRole.NEURAL_SOURCE, limits))


def _turned(matrices: Tensor) -> Tensor:
    """Rows and columns exchanged."""
    order = list(range(matrices.rank))
    order[-2:] = order[-1], order[-2]
    return matrices.transpose(order)


def _range(context: RecipeContext, matrices: Tensor, axis: int, start: int, count: int) -> Tensor:
    """Rows or columns start .. start + count."""
    seen = matrices.part(axis, start, count)
    return seen if seen.aligned else context.copied(seen)


def _at(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    """The matrix at a batch index."""
    offset = tensor.offset + sum(i * stride for i, stride in zip(index, tensor.strides, strict=False))
    return tensor.seen(offset, tensor.shape[-2:], tensor.strides[-2:])
