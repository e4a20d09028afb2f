"""Matrix products of two computed tensors with a group for every matrix of a batch: one task where there would be one
for each, and rows that are no multiple of the lanes.

The engine computes groups of a convolution one after the other, each with coefficients of its own, a plane behind the
other in every core's stream. Those computed at run time are written so by the copy that packs them (inferred: products
seen have one group). The last block may have fewer rows than lanes, as the last of constant weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from openane.compiler.buffers.storage import BufferKind, VirtualBuffer
from openane.compiler.loops.assign import OperandRole, access, legal
from openane.compiler.recipes.context import RecipeContext
from openane.engine import (
    Access,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    MatrixProduct,
    PassThrough,
    Post,
    Space,
    Streams,
)
from openane.engine.access import CHANNELS, WIDTH
from openane.errors import UnsupportedError
from openane.ops.lowering import ELEMENT, Tensor
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up

Dimensions = tuple[int | None, ...]
ROWS, COLUMNS, IMAGES = (0, 1, None, None, 2), (0, 2, None, None, 1), (0, 1, None, 2, 3)
"""How matrices [B, rows, columns] are walked with rows, or columns, as channels, and images [B, channels, H, W]."""
TASK = 1 << 13
"""What a task counts beside what it moves, in elements that move meanwhile: some 0.2 us, between the 44 cycles of the
compiler's own model and the 2.8 us that a driver was seen to need at most."""
MANY_MATRICES, MANY_TASKS = 32, 128
"""Products in records are those of some 12 heads. Where there are more matrices than this, as where attention stays
within windows, or one by one they would be more tasks, they are made together at every level."""
Matrices = tuple[Tensor, Tensor, Tensor]


def grouped_product(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post | None) -> bool:
    """target [..., M, N] = post(left [..., M, K] @ right [..., K, N]), transposed where that moves less. False, with
    nothing done, where matrices of the batch repeat, where the extents ask for another way, and at level 0 unless one
    by one they would be many tasks."""
    if not (context.level or _many(context, left)) or _repeats(left) or _repeats(right):
        return False
    straight = _abstract(target), _abstract(left), _abstract(right)
    costs = {turned: cost for turned, operands in ((False, straight), (True, _exchanged(straight)))
             if (cost := _cost(context, operands)) is not None}
    if not costs:
        return False
    place = target if _batched(target) is not None else context.scratch(target.shape)
    whole = _fresh(context, place), _fresh(context, left), _fresh(context, right)
    _multiply(context, *(_exchanged(whole) if min(costs, key=costs.__getitem__) else whole), post or Post())
    if place is not target:
        context.copy(place, target)
    return True


def products(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post | None = None) -> None:
    """target [B, M, H, W] = post(left [B, M, K] times the channels of right [B, K, H, W]), as `grouped_product`, at
    every level. UnsupportedError for more matrices than that can take."""
    groups, rows, reduction = left.shape
    most = min(context.limits.groups, context.limits.kernel_memory // context.limits.cores
               // _plane(context, reduction, _lanes(context, rows)))
    if groups > most:
        raise UnsupportedError(context.label, "a batch of products is too large for one operation", limit=most,
                               found=groups)
    _emit(context, target, _packed(context, left), right, post or Post(), IMAGES)


def _many(context: RecipeContext, left: Tensor) -> bool:
    """Whether products with the rows of a batch as coefficients would be more, one by one, than any record has."""
    rules, rows, matrices = context.limits.lanes, left.shape[-2], prod(left.shape[:-2])
    return matrices > MANY_MATRICES or \
        matrices * len(list(rules.row_parts(rows, rules.runtime_product(rows)))) > MANY_TASKS


def _repeats(matrices: Tensor) -> bool:
    """Whether matrices of a batch are the same."""
    return any(extent > 1 and not stride for extent, stride in
               zip(matrices.shape[:-2], matrices.strides[:-2], strict=True))


def _batched(tensor: Tensor) -> Tensor | None:
    """The matrices of a batch as [B, rows, columns]."""
    return tensor.reshape((prod(tensor.shape[:-2]), *tensor.shape[-2:]))


def _abstract(tensor: Tensor) -> Tensor:
    """The same, of a batch that has no such view with strides that no operation can walk."""
    seen = _batched(tensor)
    shape = (prod(tensor.shape[:-2]), *tensor.shape[-2:])
    return seen if seen is not None else tensor.seen(tensor.offset, shape, (1, 1, 1))


def _fresh(context: RecipeContext, tensor: Tensor) -> Tensor:
    seen = _batched(tensor)
    if seen is None:
        seen = _batched(context.copied(tensor))
    assert seen is not None, "fresh memory has no gaps between matrices"
    return seen


def _exchanged(operands: Matrices) -> Matrices:
    """The operands of the transposed product."""
    target, left, right = (tensor.transpose((0, 2, 1)) for tensor in operands)
    return target, right, left


def _cost(context: RecipeContext, operands: Matrices) -> int | None:
    """Elements moved by the product and the copies around it; None where it has no such form."""
    target, left, right = operands
    (groups, rows, reduction), columns = left.shape, right.shape[2]
    limits = context.limits
    lanes = _lanes(context, rows)
    plane = _plane(context, reduction, lanes)
    large = columns > limits.lanes.streamed and plane > limits.lanes.kept
    if large or max(groups, 1) * plane > limits.kernel_memory // limits.cores or groups > limits.groups \
            or max(rows, reduction) > min(limits.channels, limits.width) or columns > limits.width:
        return None
    parts = len(list(_parts(context, rows)))
    cost = left.elements + parts * (right.elements + TASK) + target.elements
    cost += 0 if _walks(context, left, ROWS) or _walks(context, left, COLUMNS) else left.elements
    cost += 0 if _walks(context, right, ROWS) else right.elements
    return cost + (0 if legal(access(target, ROWS), OperandRole.RESULT, limits) else target.elements)


def _lanes(context: RecipeContext, rows: int) -> int:
    """Rows per core: the fewest that take one part, else the most."""
    limits = context.limits
    choices = sorted((1, *limits.lanes.runtime))
    return next((lanes for lanes in choices if rows <= limits.cores * lanes), choices[-1])


def _parts(context: RecipeContext, rows: int) -> Iterator[tuple[int, int]]:
    """(start, count) of the tasks' rows, last first, as in every one of Apple's programs."""
    most = context.limits.cores * _lanes(context, rows)
    return reversed([(start, min(most, rows - start)) for start in range(0, rows, most)])


def _plane(context: RecipeContext, reduction: int, lanes: int) -> int:
    """Bytes a core reads for one group."""
    return round_up(reduction * lanes * ELEMENT, context.limits.coefficients.alignment)


def _walks(context: RecipeContext, matrices: Tensor, dims: Dimensions) -> bool:
    return matrices.aligned and legal(access(matrices, dims), OperandRole.NEURAL_SOURCE,
                                      context.limits)


def _multiply(context: RecipeContext, target: Tensor, left: Tensor, right: Tensor, post: Post) -> None:
    """target [B, M, N] = post(left [B, M, K] @ right [B, K, N]), the rows of `left` as coefficients."""
    packed = _packed(context, left)
    right = right if _walks(context, right, ROWS) else context.copied(right)
    made = target if target.aligned and legal(access(target, ROWS), OperandRole.RESULT, context.limits) \
        else context.scratch(target.shape)
    _emit(context, made, packed, right, post, ROWS)
    if made is not target:
        context.copy(made, target)


def _emit(context: RecipeContext, target: Tensor, packed: _Packed, right: Tensor, post: Post, dims: Dimensions) -> None:
    """The operations of `_multiply`, on operands that they can walk."""
    groups, rows = target.shape[:2]
    lanes = _lanes(context, rows)
    for start, count in _parts(context, rows):
        cores = ceil_div(count, lanes)
        streams = tuple(CoefficientStream(core, core * packed.step, packed.size) for core in range(cores))
        section = CoefficientSection(packed.slot, Streams(streams, packed.offset + start // lanes * packed.step))
        context.emit(MatrixProduct(
            source=access(right, dims), result=access(target.part(1, start, count), dims), post=post,
            coefficients=Coefficients(weights=section, lanes=lanes, runtime=True), grouped=groups > 1))


@dataclass(frozen=True, slots=True)
class _Packed:
    """Where coefficients lie: the first block of rows at `offset` of `slot`, every further one `step` bytes on, and how
    many bytes each is."""

    slot: int
    offset: int
    step: int
    size: int


def _packed(context: RecipeContext, matrices: Tensor) -> _Packed:
    """The rows of matrices [B, M, K] as coefficients: of every block of `lanes` rows the planes of all matrices. Rows
    of one matrix that are a block each are read as they lie, but not from what the program hands out."""
    groups, rows, reduction = matrices.shape
    lanes = _lanes(context, rows)
    plane = _plane(context, reduction, lanes)
    step, rows_first = groups * plane, _walks(context, matrices, ROWS)
    if rows_first and lanes == matrices.shape[0] == 1 and matrices.space is Space.MEMORY \
            and not context.is_output(matrices.slot):
        return _Packed(matrices.slot, matrices.offset, matrices.strides[1], step)
    if not rows_first and not _walks(context, matrices, COLUMNS):
        matrices, rows_first = context.copied(matrices), True
    slot = context.blocks.add(VirtualBuffer(ceil_div(rows, lanes) * step, BufferKind.SCRATCH))
    if rows_first:
        write = Access(slot=slot, shape=(groups, rows, 1, 1, reduction), interleave=lanes,
                       strides=(plane, step, 0, 0, lanes * ELEMENT))
    else:
        write = Access(slot=slot, shape=(groups, reduction, 1, 1, rows), interleave=lanes,
                       strides=(plane, lanes * ELEMENT, 0, 0, step), packed=WIDTH if lanes > 1 else CHANNELS)
    context.emit(PassThrough(source=access(matrices, ROWS if rows_first else COLUMNS), result=write))
    return _Packed(slot, 0, step, step)
