"""Images of another size: each new pixel is a weighted sum of old ones, as the Pillow library weighs and rounds them.

A filter is a function of the distance in pixels; where an image becomes smaller it is widened by as much, so that every
old pixel counts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


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


FILTERS: dict[int, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    1: (_lanczos, 3.0), 2: (_triangle, 1.0), 3: (_cubic, 2.0), 4: (_box, 0.5), 5: (_hamming, 1.0)}
"""Filters by Pillow's numbers, and how far each reaches. 0 takes the nearest pixel and is none."""
NEAREST = 0


def weights(before: int, after: int, kind: int) -> np.ndarray:
    """What each of `before` pixels counts in each of `after`, float64 [after, before]."""
    function, reach = FILTERS[kind]
    scale = before / after
    wide = max(scale, 1.0)
    centres = (np.arange(after) + 0.5) * scale
    first = np.maximum((centres - reach * wide + 0.5).astype(np.int64), 0)[:, None]
    last = np.minimum((centres + reach * wide + 0.5).astype(np.int64), before)[:, None]
    places = np.arange(before)[None, :]
    found = np.where((places >= first) & (places < last), function((places - centres[:, None] + 0.5) / wide), 0)
    return np.asarray(found / found.sum(1, keepdims=True), np.float64)


def resized(image: np.ndarray, height: int, width: int, kind: int) -> np.ndarray:
    """A uint8 image [height, width, channels] of that size, rows first, rounded after each direction."""
    if kind == NEAREST:
        rows, columns = _nearest(image.shape[0], height), _nearest(image.shape[1], width)
        return np.asarray(image[rows][:, columns])
    found = image
    if width != image.shape[1]:
        found = _rounded(np.einsum("ab,hbc->hac", weights(image.shape[1], width, kind), found, optimize=True))
    if height != image.shape[0]:
        found = _rounded(np.einsum("ab,bwc->awc", weights(image.shape[0], height, kind), found, optimize=True))
    return found


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
    places = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    low = places.astype(np.int64)
    found = np.zeros((after, before), np.float32)
    part = (places - low).astype(np.float32)
    np.add.at(found, (np.arange(after), low), 1 - part)
    np.add.at(found, (np.arange(after), np.minimum(low + 1, before - 1)), part)
    return found


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.floor(values + 0.5), 0, 255), np.uint8)
