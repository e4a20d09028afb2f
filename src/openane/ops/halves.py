"""Numbers as the engine holds them: fp16."""

from __future__ import annotations

import numpy as np

LARGEST = 65504.0
"""Largest finite fp16."""

SMALLEST_NORMAL = 2.0 ** -14
"""Smallest fp16 with all its digits."""


def half(value: float) -> float:
    """The value rounded to fp16."""
    with np.errstate(over="ignore"):
        return float(np.float16(value))


def normal(value: float) -> bool:
    """Whether fp16 holds the value with all its digits: 0, or from 2^-14 to 65504."""
    return value == 0 or (abs(half(value)) <= LARGEST and abs(value) >= SMALLEST_NORMAL)


def fits(value: float) -> bool:
    """Whether fp16 can hold the value: finite, and not rounded to 0."""
    return abs(half(value)) <= LARGEST and (value == 0 or half(value) != 0)
