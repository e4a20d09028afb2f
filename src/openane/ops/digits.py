"""Rearrangements that split dimensions, transpose what they were split into, and merge it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import prod

from openane.ops.lowering import Lowering, Tensor

Factors = Sequence[tuple[int, ...]]
"""The extents each dimension is split into, outermost first."""


def rearranged(lowering: Lowering, source: Tensor, factors: Factors, order: Sequence[Sequence[int]],
               place: Callable[[], Tensor]) -> None:
    """place() = source with its dimensions split by `factors`, the pieces numbered from 0 and merged as `order` lists
    them for each dimension of the result. At most three copies: rows that are split, or made of several pieces, are
    turned into planes on the way."""
    pieces = list(chain(*factors))
    flat = list(chain(*order))
    merged = [tuple(pieces[i] for i in group) for group in order]
    split = _split(lowering, source, factors).transpose(flat)
    target = place()
    seen = target.reshape(split.shape)
    if seen is not None:
        lowering.copy(split, seen)
        return
    whole = _planes(lowering, target, merged)
    lowering.copy(split, whole)
    _move(lowering, whole, target, _unsplit(target, merged))


def _split(lowering: Lowering, source: Tensor, factors: Factors) -> Tensor:
    """The source with every dimension split, as a view or a copy."""
    seen = source.reshape(tuple(chain(*factors)))
    if seen is not None:
        return seen
    whole = _planes(lowering, source, factors)
    _move(lowering, source, whole, _unsplit(source, factors))
    return whole


def _move(lowering: Lowering, source: Tensor, target: Tensor, coarse: tuple[int, ...]) -> None:
    """target = source in row-major order, by one copy where both can be seen under the shape `coarse`."""
    read, write = source.reshape(coarse), target.reshape(coarse)
    if read is not None and write is not None:
        lowering.copy(read, write)
    else:
        lowering.reshape(source, target)


def _unsplit(tensor: Tensor, factors: Factors) -> tuple[int, ...]:
    """Extents with every dimension split but the one rows run along."""
    return tuple(chain(*((prod(group),) if d == tensor.contiguous else group for d, group in enumerate(factors))))


def _planes(lowering: Lowering, tensor: Tensor, factors: Factors) -> Tensor:
    """Scratch for all pieces, those of the dimension `tensor` has its rows along as planes beside each other."""
    owners = [d for d, group in enumerate(factors) for _ in group]
    extents = list(chain(*factors))
    free = [i for i, d in enumerate(owners) if d != tensor.contiguous and extents[i] > 1]
    row = max(free, key=lambda i: extents[i], default=-1)
    return lowering.scratch(extents, (*(i for i in range(len(extents)) if i != row), row), tensor.dtype)
