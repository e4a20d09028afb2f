"""Splits tensors that no single operation can go through into parts that one can.

Four means are tried in turn. Neighbouring dimensions are merged where strides allow it. A dimension that is too long is
folded into two (100000 elements as 25 rows of 4000) where a loop is free. Where none is, it is cut into ranges, at
places where a row may be cut, so that every part begins aligned. Where strides suit no loop at all, a dimension is
unrolled: an operation for every index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openane.chips import Limits
from openane.compiler.loops.assign import (
    MAXIMUM_OPERATIONS,
    OperandRole,
    access,
    assign,
    assignments,
    excess,
    merged,
    row_cut,
)
from openane.engine import Access
from openane.errors import UnsupportedError
from openane.ops.lowering import Tensor
from openane.rounding import ceil_div

Tensors = list[Tensor]


def split_operands(tensors: Sequence[Tensor], roles: Sequence[OperandRole], limits: Limits,
                   label: str) -> list[list[Access]] | None:
    """The operands of each of the operations that together go through the whole of the tensors; None when their strides
    rule it out.

    UnsupportedError when more than MAXIMUM_OPERATIONS would be needed.
    """
    found: list[list[Access]] = []
    for operands in _split(list(tensors), tuple(roles), limits):
        if operands is None:
            return None
        found.append(operands)
        if len(found) > MAXIMUM_OPERATIONS:
            raise UnsupportedError(label, "the operation would be unrolled into too many engine operations",
                                   limit=MAXIMUM_OPERATIONS, found=f"shape {list(tensors[0].shape)}",
                                   remedy="use a shape whose trailing dimensions are larger")
    return found


def ranges(extent: int, limit: int, cut: int) -> Iterator[tuple[int, int]]:
    """(start, count) of pieces that are at most `limit` and of about one size, starting at multiples of `cut`."""
    pieces = ceil_div(extent, max(cut, limit // cut * cut))
    size = extent if pieces == 1 else ceil_div(extent, pieces * cut) * cut
    for start in range(0, extent, size):
        yield start, min(size, extent - start)


def _split(tensors: Tensors, roles: tuple[OperandRole, ...], limits: Limits) -> Iterator[list[Access] | None]:
    dims = assign(tensors, roles, limits)
    if dims is None:
        joined = merged(tensors, min(limits.width, limits.height, limits.groups))
        if joined[0].shape != tensors[0].shape:
            tensors = joined
            dims = assign(tensors, roles, limits)
    if dims is not None:
        yield [access(t, dims) for t in tensors]
        return
    pieces = _smaller(tensors, roles, limits)
    if pieces is None:
        yield None
        return
    for piece in pieces:
        yield from _split(piece, roles, limits)


def _smaller(tensors: Tensors, roles: tuple[OperandRole, ...], limits: Limits) -> Iterator[Tensors] | None:
    """The same elements as tensors that are closer to what one operation can walk, or None."""
    shape = tensors[0].shape
    choices = [excess(shape, dims, limits) for dims in assignments(tensors, roles)]
    if not choices:
        return _unrolled(tensors, roles)
    ratio, axis, bound = max(min(choices, key=lambda over: sum(ratio for ratio, _, _ in over)))
    size = _row(shape[axis], bound, row_cut(limits))
    folds = sum(extent > 1 for extent in shape) < 5
    if folds and shape[axis] % size == 0:
        folded = _folded(tensors, axis, size)
        if folded is not None and _improves(folded, roles, limits, ratio):
            return iter([folded])
    return _ranges(tensors, axis, _folding(tensors, axis, size) if folds else size)


def _folding(tensors: Tensors, axis: int, size: int) -> int:
    """The largest part of an axis that can be folded into rows of `size`, one such row where none can."""
    extent = tensors[0].shape[axis]
    whole = extent // size * size
    folds = size < whole < extent and _folded([t.part(axis, 0, whole) for t in tensors], axis, size) is not None
    return whole if folds else size


def _row(extent: int, bound: int, cut: int) -> int:
    """Elements of the pieces a dimension beyond `bound` is folded or cut into: a divisor when there is a large one."""
    step = cut if bound >= cut else 1
    largest = bound // step * step
    for size in range(largest, largest // 4, -step):
        if extent % size == 0:
            return size
    return largest


def _folded(tensors: Tensors, axis: int, size: int) -> Tensors | None:
    """The tensors with `axis` as two dimensions, the inner one of `size`; None where a stride would not be aligned."""
    out = []
    for t in tensors:
        stride = t.strides[axis]
        if stride * size % t.alignment:
            return None
        shape = (*t.shape[:axis], t.shape[axis] // size, size, *t.shape[axis + 1:])
        out.append(t.seen(t.offset, shape, (*t.strides[:axis], stride * size, stride, *t.strides[axis + 1:])))
    return out


def _improves(tensors: Tensors, roles: tuple[OperandRole, ...], limits: Limits, ratio: float) -> bool:
    """Whether some walk of the folded tensors exceeds the limits by less."""
    shape = tensors[0].shape
    return any(max((over[0] for over in excess(shape, dims, limits)), default=0.0) < ratio
               for dims in assignments(tensors, roles))


def _ranges(tensors: Tensors, axis: int, size: int) -> Iterator[Tensors]:
    extent = tensors[0].shape[axis]
    for start in range(0, extent, size):
        yield [t.part(axis, start, min(size, extent - start)) for t in tensors]


def _unrolled(tensors: Tensors, roles: tuple[OperandRole, ...]) -> Iterator[Tensors] | None:
    """One piece per element of a dimension without which strides suit, else of the smallest; None when there is
    none to take away."""
    shape = tensors[0].shape
    outer = sorted((d for d in range(len(shape)) if shape[d] > 1), key=lambda d: shape[d])
    inner = {t.contiguous for t in tensors}
    outer = [d for d in outer if d not in inner] or outer
    if sum(extent > 1 for extent in shape) <= 2:
        return None
    useful = [d for d in outer if assignments([t.part(d, 0, 1) for t in tensors], roles)]
    return _ranges(tensors, (useful or outer)[0], 1)
