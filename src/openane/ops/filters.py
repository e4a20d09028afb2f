"""Filters by which images get another size: each result is a weighted sum of the elements around its place.

A filter says what an element weighs by its distance from the place, in elements; where an image becomes smaller it is
widened by as much, so that every element counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openane.record_classes import dataclass


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1 - np.abs(x), 0))


def _cubic(x: np.ndarray) -> np.ndarray:
    """Keys' cubic with a = -1/2."""
    far = np.abs(x)
    near = (1.5 * far - 2.5) * far * far + 1
    return np.where(far < 1, near, np.where(far < 2, ((-0.5 * far + 2.5) * far - 4) * far + 2, 0))


def _lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


def _box(x: np.ndarray) -> np.ndarray:
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def _hamming(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)), 0)


@dataclass(frozen=True, slots=True)
class Filter:
    """What an element weighs by its distance, and how far the filter `reaches`."""

    weighs: Callable[[np.ndarray], np.ndarray]
    reaches: float

    def weights(self, before: int, after: int, apart: float) -> np.ndarray:
        """What each of `before` elements counts in each of `after`, whose places lie so far `apart`: float64 [after,
        before], each row adding up to 1."""
        wide = max(apart, 1.0)
        middles = ((np.arange(after) + 0.5) * apart)[:, None]
        first = np.floor(middles - self.reaches * wide + 0.5)
        last = np.floor(middles + self.reaches * wide + 0.5)
        places = np.arange(before)[None, :]
        found = np.where((places >= first) & (places < last), self.weighs((places - middles + 0.5) / wide), 0)
        return np.asarray(found / found.sum(1, keepdims=True), np.float64)


LANCZOS, TRIANGLE, CUBIC = Filter(_lanczos, 3.0), Filter(_triangle, 1.0), Filter(_cubic, 2.0)
BOX, HAMMING = Filter(_box, 0.5), Filter(_hamming, 1.0)
