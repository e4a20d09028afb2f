"""What constant weights take up of a power of two: as much as leaves them numbers that fp16 holds with their digits."""

from __future__ import annotations

import math

import numpy as np

from openane.ops.halves import SMALLEST_NORMAL

SMALLEST_LARGEST = 2.0 ** -9
"""The largest weight may be made as small as this: what fp16 then drops of others is a 2^-16th of it."""
SMALLEST_USUAL = 2 * SMALLEST_NORMAL
"""Or the root mean square as small as this: what fp16 then drops is less than it rounds off usual weights anyway."""
LARGEST = 2.0 ** 14


def room(weight: np.ndarray) -> tuple[int, int] | None:
    """Between which exponents weights may be multiplied by a power of two, neither farther out than they are; None
    where any will do, since they are 0 or no numbers."""
    flat = np.abs(np.ravel(weight)).astype(np.float64)
    magnitudes = flat[flat > 0]
    largest = float(np.max(magnitudes, initial=0.0))
    if not largest or not math.isfinite(largest):
        return None
    usual = largest * math.sqrt(float(np.mean(np.square(magnitudes / largest))))
    low = math.floor(min(math.log2(SMALLEST_LARGEST / largest), math.log2(SMALLEST_USUAL / usual)))
    return min(low, 0), max(math.floor(math.log2(LARGEST / largest)), 0)


def share(weight: np.ndarray, exponent: int) -> int:
    """How much of a power of two weights take up."""
    ends = room(weight) if exponent else None
    return exponent if ends is None else max(ends[0], min(exponent, ends[1]))
