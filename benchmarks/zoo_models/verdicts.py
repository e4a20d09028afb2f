"""How far a model's outputs are from those of its library."""

from __future__ import annotations

import numpy as np


def worst(found: list[np.ndarray], wanted: list[np.ndarray]) -> float | None:
    """The largest error of any output over its largest finite number; of whole numbers, the share that differ. Infinity
    where one is not finite and should be, or outputs are other than wanted; None without outputs of numbers."""
    if [array.size for array in found] != [array.size for array in wanted]:
        return float("inf")
    return max((_error(np.asarray(a), np.asarray(b)) for a, b in zip(found, wanted, strict=True)), default=None)


def _error(found: np.ndarray, wanted: np.ndarray) -> float:
    if wanted.dtype.kind != "f":
        return float(np.mean(found.reshape(-1) != wanted.reshape(-1))) if wanted.size else 0.0
    ours, theirs = found.reshape(-1).astype(np.float64), wanted.reshape(-1).astype(np.float64)
    finite = np.isfinite(theirs) & (np.abs(theirs) < np.finfo(np.float16).max)
    if not finite.any():
        return 0.0
    if not np.isfinite(ours[finite]).all():
        return float("inf")
    largest = np.abs(theirs[finite]).max()
    apart = np.abs(ours[finite] - theirs[finite]).max()
    return float(apart / largest) if largest else float(apart)
