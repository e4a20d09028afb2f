"""Images sampled between their elements: the sums of neighbours that `resample` and `roi_align` take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Inside = Callable[[np.ndarray, int], np.ndarray]
"""Brings numbers of elements into an extent, or leaves those outside as they are."""


def sampled(x: np.ndarray, at: np.ndarray, inside: Inside, outside: float) -> np.ndarray:
    """[B, C, H2, W2] of images [B, C, H, W] at places `at` [B, H2, W2, 2], (x, y) in elements: the four neighbours by
    how near they lie, `outside` for those that are no elements."""
    height, width = x.shape[2:]
    low = np.floor(at)
    share = at - low
    total = np.zeros((*x.shape[:2], *at.shape[1:3]))
    images = np.arange(len(x))[:, None, None]
    for right in (0, 1):
        for below in (0, 1):
            part = np.where(right, share[..., 0], 1 - share[..., 0]) * np.where(below, share[..., 1], 1 - share[..., 1])
            column = inside((low[..., 0] + right).astype(np.int64), width)
            row = inside((low[..., 1] + below).astype(np.int64), height)
            valid = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            found = x[images, :, np.where(valid, row, 0), np.where(valid, column, 0)]
            total += part[:, None] * np.where(valid[:, None], np.moveaxis(found, -1, 1), outside)
    return total
