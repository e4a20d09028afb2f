"""Positions as T5 and MPNet have them: a bias of every score, by how far what is looked at lies from who looks, in
buckets that grow with the distance."""

from __future__ import annotations

import numpy as np


def buckets(distances: np.ndarray, count: int, most: int, both_ways: bool) -> np.ndarray:
    """The bucket of each distance (place of what is looked at less place of who looks), of `count`: near ones have one
    each, those up to `most` share them by the logarithm. `both_ways`: half of the buckets are for what lies ahead;
    otherwise nothing does."""
    first = np.zeros_like(distances)
    if both_ways:
        count //= 2
        first = np.where(distances > 0, count, 0)
        away = np.abs(distances)
    else:
        away = np.maximum(-distances, 0)
    exact = count // 2
    with np.errstate(divide="ignore"):
        far = exact + (np.log(np.maximum(away, 1) / exact) / np.log(most / exact) * (count - exact)).astype(np.int64)
    return np.asarray(first + np.where(away < exact, away, np.minimum(far, count - 1)), np.int64)
