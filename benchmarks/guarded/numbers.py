"""Drawn numbers that are the same on every machine and with every release of numpy and Python."""

from __future__ import annotations

import hashlib
from math import prod

import numpy as np

Shape = int | tuple[int, ...]


class Numbers:
    """The methods of `numpy.random.Generator` that tests and networks draw with, fed by SHAKE-128 of a name.

    numpy may change what its own generators give from release to release. The distributions are plain: `uniform` and
    `integers` have 16 bits, `standard_normal` is a sum of four uniform numbers, scaled to deviation 1.
    """

    def __init__(self, *name: object) -> None:
        self._name, self._drawn = "/".join(map(str, name)), 0

    def integers(self, low: int, high: int, shape: Shape = (), dtype: type[np.integer] = np.int64) -> np.ndarray:
        """Whole numbers from `low` up to, not including, `high`, which are at most 65536 apart."""
        return (self._halves(shape) % np.int64(high - low) + low).astype(dtype)

    def uniform(self, low: float, high: float, shape: Shape = ()) -> np.ndarray:
        """float64 numbers between `low` and `high`."""
        return low + (high - low) * ((self._halves(shape) + 0.5) / 65536)

    def standard_normal(self, shape: Shape = (), dtype: type[np.floating] = np.float64) -> np.ndarray:
        """Numbers of mean 0 and deviation 1 within -3.5..3.5, nearly in a normal distribution."""
        total = np.sum([self._halves(shape) for _ in range(4)], axis=0)
        return np.asarray((total - 2 * 65535) / 37837, dtype)

    def exact(self, shape: Shape, size: float) -> np.ndarray:
        """float32 numbers within -size..size that fp16 holds exactly; `size` is a power of two."""
        return (self._halves(shape) % 2048 - 1024).astype(np.float32) * np.float32(size / 1024)

    def _halves(self, shape: Shape) -> np.ndarray:
        """int32 numbers of 16 bits."""
        count = shape if isinstance(shape, int) else prod(shape)
        data = hashlib.shake_128(f"{self._name} {self._drawn}".encode()).digest(2 * count)
        self._drawn += 1
        return np.frombuffer(data, "<u2").astype(np.int32).reshape(shape)
