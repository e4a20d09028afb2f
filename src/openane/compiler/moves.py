"""Data movement: slices and joins the engine could not address as they are, reshapes that reorder rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from openane.errors import UnsupportedError
from openane.ops.lowering import Tensor

if TYPE_CHECKING:
    from openane.compiler.lowering import Compiler

CELL = 64
"""Bytes of the cell each element of a reshape passes through."""
CELL_BYTES = 1 << 24
"""Scratch a reshape takes at most at a time, where it can be cut."""
CELL_LIMIT = 1 << 30
"""Beyond this a reshape that cannot be cut is refused."""


def part(compiler: Compiler, tensor: Tensor, axis: int, start: int, count: int, step: int) -> Tensor:
    """Elements start, start + step, ... of one dimension; a row is turned into planes first where it must be cut."""
    seen = tensor.part(axis, start, count, step)
    if seen.aligned:
        return seen
    turned = compiler.scratch(tensor.shape, _order_without(tensor, axis))
    compiler.copy(tensor, turned)
    return turned.part(axis, start, count, step)


def join(compiler: Compiler, target: Tensor, parts: Sequence[Tensor], axis: int) -> None:
    """target = parts side by side along `axis`; through a turned copy where a part would not start aligned."""
    places, start = [], 0
    for source in parts:
        places.append((start, source.shape[axis]))
        start += source.shape[axis]
    whole = target
    if not all(target.part(axis, at, count).aligned for at, count in places):
        whole = compiler.scratch(target.shape, _order_without(target, axis))
    for source, (at, count) in zip(parts, places, strict=True):
        compiler.copy(source, whole.part(axis, at, count))
    if whole is not target:
        compiler.copy(whole, target)


def reshape(compiler: Compiler, source: Tensor, target: Tensor) -> None:
    """target = source in row-major order. Where no view expresses it every element passes through a 64-byte cell:
    cells can be walked with any strides, so the reshape happens between writing and reading them."""
    for seen, place in ((source.reshape(target.shape), target), (source, target.reshape(source.shape))):
        if seen is not None and place is not None:
            compiler.copy(seen, place)
            return
    cells = CELL * source.elements
    pieces = _common_split(source, target) if cells > CELL_BYTES else None
    if pieces is not None:
        for piece, place in pieces:
            reshape(compiler, piece, place)
        return
    if cells > CELL_LIMIT:
        raise UnsupportedError(compiler.label, "a reshape that reorders rows must fit the scratch memory it needs",
                               limit=CELL_LIMIT, found=cells,
                               remedy="keep the last dimension, or make it a multiple of 32 elements")
    spread = compiler.scratch(source.shape, (*range(source.rank), -1))
    compiler.copy(source, spread)
    seen = spread.reshape(target.shape)
    assert seen is not None, "cells can be reshaped to anything"
    compiler.copy(seen, target)


def _order_without(tensor: Tensor, axis: int) -> tuple[int, ...]:
    """Storage order in which the largest dimension other than `axis` is contiguous, or none when all are 1."""
    others = [d for d in range(tensor.rank) if d != axis]
    last = max(others, key=lambda d: tensor.shape[d], default=-1)
    return (*(d for d in range(tensor.rank) if d != last), last)


def _common_split(source: Tensor, target: Tensor) -> list[tuple[Tensor, Tensor]] | None:
    """Pairs of (source, target) pieces of a reshape that keeps its leading elements apart, or None."""
    outer, inner = 0, 0
    left = right = 1
    best: tuple[int, int] | None = None
    while outer < source.rank and inner < target.rank:
        if left <= right:
            left *= source.shape[outer]
            outer += 1
        else:
            right *= target.shape[inner]
            inner += 1
        if left == right and left > 1 and outer < source.rank and inner < target.rank and best is None:
            best = outer, inner
    if best is None:
        return None
    heads = [np.ndindex(source.shape[:best[0]]), np.ndindex(target.shape[:best[1]])]
    return [(_at(source, i), _at(target, j)) for i, j in zip(*heads, strict=True)]


def _at(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    for axis, position in enumerate(index):
        tensor = tensor.part(axis, position, 1)
    keep = range(len(index), tensor.rank)
    return Tensor(tensor.slot, tensor.offset, tuple(tensor.shape[d] for d in keep),
                  tuple(tensor.strides[d] for d in keep), tensor.space)


