"""Biases by how far two tokens are apart: near distances have one each, far ones share, as MPNet has it."""

from __future__ import annotations

import numpy as np

FARTHEST = 128
"""Distances from here on share the last."""
BIASES = 32
"""The family's code has so many, whatever a configuration states."""


def buckets(distances: np.ndarray) -> np.ndarray:
    """Which of BIASES belongs to each distance: half of them for what comes after."""
    half = BIASES // 2
    exact = half // 2
    far = np.abs(distances)
    ratio = np.log(np.maximum(far, 1).astype(np.float32) / exact) / np.log(FARTHEST / exact)
    shared = np.minimum(exact + (ratio * (half - exact)).astype(np.int64), half - 1)
    return np.asarray(np.where(far < exact, far, shared) + np.where(distances > 0, half, 0))
