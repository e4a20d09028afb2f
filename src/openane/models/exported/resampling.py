"""Images of another size: new pixels are weighted sums of old ones, as the Pillow library weighs and rounds them."""

from __future__ import annotations

import numpy as np

from openane.ops.filters import BOX, CUBIC, HAMMING, LANCZOS, TRIANGLE
from openane.ops.sampling import grid, linear

FILTERS = {1: LANCZOS, 2: TRIANGLE, 3: CUBIC, 4: BOX, 5: HAMMING}
"""Filters by Pillow's numbers. 0 takes the nearest pixel and is none."""
NEAREST = 0


def resized(image: np.ndarray, height: int, width: int, kind: int) -> np.ndarray:
    """A uint8 image [height, width, channels] of that size, rows first, rounded after each direction."""
    if kind == NEAREST:
        rows, columns = _nearest(image.shape[0], height), _nearest(image.shape[1], width)
        return np.asarray(image[rows][:, columns])
    found = image
    if width != image.shape[1]:
        found = _rounded(np.einsum("ab,hbc->hac", _weights(image.shape[1], width, kind), found, optimize=True))
    if height != image.shape[0]:
        found = _rounded(np.einsum("ab,bwc->awc", _weights(image.shape[0], height, kind), found, optimize=True))
    return found


def _weights(before: int, after: int, kind: int) -> np.ndarray:
    return FILTERS[kind].weights(before, after, before / after)


def _nearest(before: int, after: int) -> np.ndarray:
    """The old pixel under the middle of each new one; places are summed up step by step, as Pillow does."""
    scale = before / after
    places = np.cumsum(np.concatenate([[scale / 2], np.full(after - 1, scale)]))
    return np.minimum(places.astype(np.int64), before - 1)


def enlarged(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Float maps [channels, rows, columns] of that size, linear between the middles of pixels, as PyTorch interpolates
    without aligned corners."""
    rows, columns = (_between(before, after) for before, after in zip(values.shape[1:], (height, width), strict=True))
    return np.asarray(np.einsum("hr,crw,vw->chv", rows, values, columns, optimize=True), np.float32)


def _between(before: int, after: int) -> np.ndarray:
    return linear(grid("UNALIGN_CORNERS", before, after), before).astype(np.float32)


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.floor(values + 0.5), 0, 255), np.uint8)
