"""What operations that move elements by constant indices share: several dimensions at once, where results go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Value
from openane.ops.indexing import cut_order, few, pieces
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import refusal

Wanted = Mapping[int, np.ndarray]
"""Dimension to the positions along it that are taken."""


def select(lowering: Lowering, value: Value, tensor: Tensor, wanted: Wanted) -> None:
    """States that `value` holds the elements of `tensor` at the `wanted` positions of each dimension (dimensions of 1
    element may be added or dropped): a view where possible, else copies."""
    shape = tuple(len(wanted[d]) if d in wanted else extent for d, extent in enumerate(tensor.shape))
    taken = taken_along(lowering, tensor, wanted, place_for(lowering, value, tensor, shape))
    lowering.bind(value, taken, value.shape)


def place_for(lowering: Lowering, value: Value, like: Tensor, shape: Sequence[int]) -> Callable[[], Tensor]:
    """Gives where `value` is written, seen as `shape` (its own but for dimensions of 1 element) in the element type of
    `like`."""
    def place() -> Tensor:
        seen = lowering.native_result(value, like.dtype).reshape(shape)
        return lowering.scratch(shape, None, like.dtype) if seen is None else seen

    return place


def taken_along(lowering: Lowering, tensor: Tensor, wanted: Wanted, place: Callable[[], Tensor]) -> Tensor:
    """The elements at the `wanted` positions of each dimension; what is copied last goes where `place` says.

    Views come first, then what makes the tensor smaller; the dimension rows run along before others of its kind.
    """
    todo = {axis: at for axis, at in wanted.items() if not np.array_equal(at, np.arange(tensor.shape[axis]))}

    def rank(axis: int) -> tuple[bool, bool, bool]:
        found = pieces(todo[axis])
        view = len(found) == 1 and found[0].copies() == 1 and len(found[0].loops) < 2
        row = axis == tensor.contiguous
        return not (view and not row), len(todo[axis]) > tensor.shape[axis], not row

    order = sorted(todo, key=rank)
    for position, axis in enumerate(order):
        shape = (*tensor.shape[:axis], len(todo[axis]), *tensor.shape[axis + 1:])

        def between(shape: tuple[int, ...] = shape, cut: Sequence[int] = order[position:],
                    like: Tensor = tensor) -> Tensor:
            return lowering.scratch(shape, cut_order(shape, cut), like.dtype)

        tensor = lowering.taken(tensor, axis, todo[axis], place if axis == order[-1] else between)
    return tensor


def within(op: str, name: str, indices: np.ndarray, extent: int) -> np.ndarray:
    """Indices counted from the front. GraphError when one is outside -extent to extent - 1."""
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise refusal(op, name, f"must hold positions from {-extent} to {extent - 1}",
                      indices.reshape(-1)[:16].tolist())
    return np.where(indices < 0, indices + extent, indices).astype(np.int64)


def constant_indices(node: Node, limits: Limits) -> bool:
    """Indices must be constants: the engine's addresses cannot depend on data."""
    names = ("indices", "begin", "end", "size", "lengths")
    return all(value.constant for name in names if (value := node.get(name)) is not None)


def factored(shape: Sequence[int], positions: np.ndarray) -> tuple[tuple[int, int, int], np.ndarray]:
    """Row-major positions into a tensor of `shape` as (leading, chosen, trailing) extents of it and one vector of
    indices into the middle one: what all leading and trailing elements have in common."""
    trailing = 1
    for extent, other in zip(reversed(shape), reversed(positions.shape), strict=False):
        if extent != other:
            break
        rows = positions.reshape(-1, trailing * extent)
        run = rows[:, :1] + np.arange(trailing * extent)
        if (rows != run).any() or (rows[:, 0] % (trailing * extent)).any():
            break
        trailing *= extent
    rows = positions.reshape(-1, trailing)[:, 0] // trailing
    total, leading = int(np.prod(shape, dtype=np.int64)) // trailing, 1
    for extent, other in zip(shape, positions.shape, strict=False):
        count = leading * extent
        if extent != other or total % count or rows.size % count:
            break
        chosen = rows.reshape(count, -1) - np.arange(count)[:, None] * (total // count)
        if (chosen != chosen[0]).any() or chosen.min() < 0 or chosen.max() >= total // count:
            break
        leading = count
    return (leading, total // leading, trailing), rows.reshape(leading, -1)[0]


def few_positions(shape: Sequence[int], positions: np.ndarray) -> bool:
    """Whether taking these row-major positions stays within MAXIMUM_COPIES."""
    return few(factored(shape, positions)[1])


def folded(lowering: Lowering, tensor: Tensor, shape: Sequence[int], axis: int) -> Tensor:
    """The tensor in row-major order under another shape, dimension `axis` of which is cut next."""
    seen = tensor.reshape(shape)
    if seen is None:
        seen = lowering.scratch(shape, cut_order(shape, (axis,)), tensor.dtype)
        lowering.reshape(tensor, seen)
    return seen


def inner(tensor: Tensor, kept: Sequence[range]) -> Tensor:
    """The part of a tensor at these positions of each dimension, as a view."""
    for axis, r in enumerate(kept):
        tensor = tensor.part(axis, r.start, len(r), r.step if len(r) > 1 else 1)
    return tensor


def inside(lowering: Lowering, target: Tensor, *parts: Sequence[range]) -> Tensor:
    """The target, or scratch of its shape laid out so that every one of these parts can be written as a view, which
    fills the last 64 bytes of every row with zeros."""
    cut = sorted({d for kept in parts for d, r in enumerate(kept) if r != range(target.shape[d])})
    for order in (None, cut_order(target.shape, cut or (0,)), (*range(target.rank), -1)):
        whole = target if order is None else lowering.scratch(target.shape, order, target.dtype)
        if all(inner(whole, kept).aligned and _ends_apart(whole, kept) for kept in parts):
            break
    return whole


def _ends_apart(tensor: Tensor, kept: Sequence[range]) -> bool:
    """Whether the part's rows end with the tensor's, or at a multiple of what the engine fills with zeros."""
    row = tensor.contiguous
    stop = 0 if row is None else kept[row][-1] + 1
    return row is None or stop == tensor.shape[row] or stop * tensor.element % tensor.alignment == 0


def take_positions(lowering: Lowering, value: Value, tensor: Tensor, positions: np.ndarray) -> None:
    """States that `value` holds the elements of `tensor` at row-major `positions` (an array of its shape)."""
    shape, indices = factored(tensor.shape, positions)
    source = folded(lowering, tensor, shape, 1)
    wanted = (shape[0], len(indices), shape[2])
    lowering.bind(value, lowering.taken(source, 1, indices, place_for(lowering, value, source, wanted)), value.shape)
