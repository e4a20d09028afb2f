"""Numbers beyond fp16 that mean "below (or above) all others", as masks of attention hold them."""

from __future__ import annotations

import numpy as np

from openane.ops.halves import LARGEST, SATURATED

FARTHEST = 30000.0
"""What numbers stand for that mean "below (or above) all others": masks hold the lowest number of fp32. Sums of two of
them are finite, so that a row that is masked throughout has no NaN; 0 is what softmax makes of it beside any score."""
MEANS_FARTHEST = 1e6
"""Numbers from here on, beyond what fp16 holds, mean that; smaller ones mean themselves."""


def nearer(array: np.ndarray, farthest: float) -> np.ndarray:
    """The array with `farthest` in place of what means "above all others", and its negative of what means "below"."""
    return np.where(np.abs(array) >= MEANS_FARTHEST, np.copysign(farthest, array), array)


def note_replaced(metadata: dict[str, str], label: str, numbers: np.ndarray, farthest: float) -> None:
    """Keeps in a graph's metadata that finite numbers of a constant of `label` were replaced."""
    lost = numbers[np.isfinite(numbers) & (np.abs(numbers) > LARGEST)]
    if lost.size:
        metadata[SATURATED + label] = f"{float(lost[0]):g} {np.copysign(farthest, lost[0]):g}"
