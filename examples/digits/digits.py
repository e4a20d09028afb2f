"""Scikit-learn's handwritten digits: 1797 images of 8x8 pixels, split once and for all into training and test."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

TRAINING = 1437
SEED = 0


def load_split() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(training images, labels), (test images, labels): fp32 [N, 1, 8, 8] between 0 and 1, int64 [N]."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    order = np.random.default_rng(SEED).permutation(len(images))
    train, test = order[:TRAINING], order[TRAINING:]
    return (images[train], digits.target[train]), (images[test], digits.target[test])
