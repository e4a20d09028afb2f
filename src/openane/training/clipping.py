"""Clipping of gradients by their global norm."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np


def global_norm(gradients: Mapping[str, np.ndarray]) -> float:
    """The Euclidean norm of all gradients as one vector, summed in fp64."""
    return sqrt(sum(float(np.square(each, dtype=np.float64).sum()) for each in gradients.values()))


def clip(gradients: Mapping[str, np.ndarray], largest: float) -> float:
    """Scales all gradients in place so that their global norm is at most `largest` (0: no limit), and returns the norm
    they had. PyTorch's clip_grad_norm_ does the same, its 1e-6 in the denominator included."""
    norm = global_norm(gradients)
    factor = largest / (norm + 1e-6)
    if largest and factor < 1:
        for each in gradients.values():
            each *= np.float32(factor)
    return norm
