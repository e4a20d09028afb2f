"""Phases: an axis seen as blocks of `factor` neighbours, element factor * q + r as (q, r).

Rows can be stepped through as they lie, columns cannot (neighbours in a row are 2 bytes apart), so a tensor whose
columns have phases is first laid out with its channels, or its rows, contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.ops.lowering import Lowering, Tensor

Factors = Sequence[int]
SPATIAL = 3
"""First spatial dimension of a tensor [N, groups, C / groups, *spatial]."""


def grouped(tensor: Tensor, groups: int) -> Tensor:
    """[N, C, *spatial] as [N, groups, C / groups, *spatial]."""
    (n, channels, *rest), (batch, plane, *others) = tensor.shape, tensor.strides
    each = channels // groups
    return tensor.seen(tensor.offset, (n, groups, each, *rest), (batch, plane * each, plane, *others))


def split(tensor: Tensor, factors: Factors) -> Tensor:
    """[N, groups, C, *spatial] as [N, groups, C, q, r, q, r, ...]; every extent is a multiple of its factor."""
    shape, strides = list(tensor.shape[:SPATIAL]), list(tensor.strides[:SPATIAL])
    for extent, stride, factor in zip(tensor.shape[SPATIAL:], tensor.strides[SPATIAL:], factors, strict=True):
        shape += [extent // factor, factor]
        strides += [stride * factor, stride]
    return tensor.seen(tensor.offset, tuple(shape), tuple(strides))


def blocks(lowering: Lowering, source: Tensor, groups: int, factors: Factors, counts: Sequence[int]) -> Tensor:
    """The first `counts` blocks along each spatial axis of source [N, C, *spatial] as
    [N, groups, C / groups, q, r, q, r, ...]; zeros where they reach beyond the source. A factor of 1 leaves its axis
    as it is."""
    inside = grouped(source, groups)
    wanted = [extent if factor == 1 else factor * count
              for extent, factor, count in zip(source.shape[2:], factors, counts, strict=True)]
    for axis, extent in enumerate(wanted, SPATIAL):
        inside = inside.part(axis, 0, min(extent, inside.shape[axis]))
    shape = (*inside.shape[:SPATIAL], *wanted)
    if inside.shape == shape and factors[-1] == 1 and source.aligned:
        return split(inside, factors)
    whole = lowering.scratch(shape, turned(shape, factors))
    place = whole
    for axis, extent in enumerate(inside.shape[SPATIAL:], SPATIAL):
        if extent < whole.shape[axis]:
            clear(lowering, place.part(axis, extent, whole.shape[axis] - extent))
            place = place.part(axis, 0, extent)
    lowering.copy(inside, place)
    return split(whole, factors)


def turned(shape: Sequence[int], factors: Factors) -> tuple[int, ...] | None:
    """Storage order for phases along the last axis: the largest axis that has none is contiguous, channels or a
    spatial one. None (row-major) where the last axis has no phases."""
    if factors[-1] == 1:
        return None
    lead = len(shape) - len(factors)
    free = [*range(1, lead), *(axis for axis, factor in enumerate(factors[:-1], lead) if factor == 1)]
    last = max(free, key=lambda axis: shape[axis])
    order = tuple(axis for axis in range(len(shape)) if axis != last)
    return (*order, last, -1) if shape[last] == 1 else (*order, last)


def interleaved(lowering: Lowering, parts: Tensor, factors: Factors, starts: Sequence[int], target: Tensor) -> None:
    """target [N, C, *spatial] from parts [N, groups, C / groups, q, r, q, r, ...] with any strides: elements `starts`
    and on of each axis, blocks joined."""
    shape = (*parts.shape[:SPATIAL], *(parts.shape[i] * parts.shape[i + 1] for i in range(SPATIAL, parts.rank, 2)))
    final = grouped(target, parts.shape[1])
    if shape == final.shape and factors[-1] == 1:
        lowering.copy(parts, split(final, factors))
        return
    whole = lowering.scratch(shape, turned(shape, factors))
    lowering.copy(parts, split(whole, factors))
    for axis, start in enumerate(starts, SPATIAL):
        whole = lowering.part(whole, axis, start, final.shape[axis])
    lowering.copy(whole, final)


def clear(lowering: Lowering, target: Tensor) -> None:
    """target = 0."""
    zero = lowering.constant(np.zeros((1,) * target.rank, np.float16))
    lowering.copy(zero.expand(target.shape), target)
