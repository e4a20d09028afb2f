"""Cuts strided operands into blocks that fit the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

Slices = tuple[slice, ...]


def split(shape: Sequence[int], limit: int) -> Iterator[Slices]:
    """Slices that cover `shape` in order, each of at most `limit` elements: whole inner dimensions where they fit."""
    inner, axis = 1, len(shape)
    while axis > 0 and inner * shape[axis - 1] <= limit:
        axis -= 1
        inner *= shape[axis]
    if axis == 0:
        yield tuple(slice(0, extent) for extent in shape)
        return
    step = max(1, limit // inner)
    tail = tuple(slice(0, extent) for extent in shape[axis:])
    for outer in product(*(range(extent) for extent in shape[:axis - 1])):
        head = tuple(slice(i, i + 1) for i in outer)
        for start in range(0, shape[axis - 1], step):
            yield (*head, slice(start, min(start + step, shape[axis - 1])), *tail)


def coalesce(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The same arrays (all of one shape) with neighbouring dimensions merged where every one of them allows it."""
    shape = list(arrays[0].shape)
    strides = [list(array.strides) for array in arrays]
    axis = len(shape) - 1
    while axis > 0:
        mergeable = all(s[axis - 1] == s[axis] * shape[axis] for s in strides)
        if mergeable or shape[axis - 1] == 1 or shape[axis] == 1:
            keep = axis if shape[axis - 1] == 1 or mergeable else axis - 1
            for s in strides:
                s[axis - 1:axis + 1] = [s[keep]]
            shape[axis - 1:axis + 1] = [shape[axis - 1] * shape[axis]]
        axis -= 1
    return [np.lib.stride_tricks.as_strided(array, shape, s, writeable=array.flags.writeable)
            for array, s in zip(arrays, strides, strict=True)]


def apart(array: np.ndarray) -> bool:
    """Whether no two elements share memory, as the strides show it: an array that interlaces may seem to."""
    reach = array.itemsize
    axes = [(abs(stride), extent) for stride, extent in zip(array.strides, array.shape, strict=True) if extent > 1]
    for stride, extent in sorted(axes):
        if stride < reach:
            return False
        reach += stride * (extent - 1)
    return True


def paired_blocks(arrays: Sequence[np.ndarray], limit: int) -> list[tuple[np.ndarray, ...]]:
    """Views of all `arrays` (broadcast to the shape of the last), block by block."""
    shape = arrays[-1].shape
    merged = coalesce([np.broadcast_to(array, shape) if array.shape != shape else array for array in arrays])
    return [tuple(array[part] for array in merged) for part in split(merged[0].shape, limit)]
