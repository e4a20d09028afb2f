"""Parts of arrays that fit into the processor's cache: what is computed of large arrays by way of intermediate ones is
computed of one part after the other, which needs neither their memory nor the time to fill it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

NUMBERS = 1 << 15
"""How many elements a part has, or a few more where an axis is longer."""


def elementwise(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray,
                kind: type[np.floating[Any]] = np.float64) -> np.ndarray:
    """A function of single numbers, of `x` in another type of real numbers, in the type of `x`."""
    if x.size <= NUMBERS:
        return np.asarray(function(x.astype(kind))).astype(x.dtype)
    result = np.empty(x.shape, x.dtype)
    numbers, made = x.reshape(-1), result.reshape(-1)
    for start in range(0, x.size, NUMBERS):
        part = slice(start, start + NUMBERS)
        made[part] = function(numbers[part].astype(kind))
    return result


def outer_parts(x: np.ndarray, result: np.ndarray, axes: Collection[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same parts of two arrays of one shape, each with the whole of `axes`: cut along the first of the other axes
    that is longer than 1, and along the next where that is not enough."""
    kept = {axis % x.ndim for axis in axes} if x.ndim else set()
    cut = next((axis for axis in range(x.ndim) if axis not in kept and x.shape[axis] > 1), None)
    if x.size <= NUMBERS or cut is None:
        yield x, result
        return
    step = max(1, NUMBERS * x.shape[cut] // x.size)
    for start in range(0, x.shape[cut], step):
        part = (slice(None),) * cut + (slice(start, start + step),)
        yield from outer_parts(x[part], result[part], kept)
