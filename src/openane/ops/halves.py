"""Numbers as the engine holds them: fp16."""

from __future__ import annotations

import math

import numpy as np

LARGEST = 65504.0
"""Largest finite fp16."""

SATURATED = "saturated:"
"""Key of a graph's metadata, before the label of an operation, for a constant beyond fp16 that an importer took to mean
"as far as possible": the number, and what it was made."""

RESCALED = "rescaled:"
"""Key of a graph's metadata, before the name of the largest tensor that is held times a power of two: how large it is
without that, and what was done."""

RANGE = "range:"
"""Key of a graph's metadata, before the name of an input: the largest magnitude it had where ranges were measured, and
what it was then: samples, or drawn inputs."""

SMALLEST_NORMAL = 2.0 ** -14
"""Smallest fp16 with all its digits."""
SMALLEST = 2.0 ** -24
"""The smallest positive number of fp16."""

PART = 1 << 16
"""How many numbers are looked at at a time, so that they stay in the processor's cache."""
_INFINITE, _MINUS_INFINITE = np.array([np.inf, -np.inf], np.float16).view(np.uint16).tolist()
_MINUS_ZERO = 0x8000
LEAST_BITS = -_MINUS_ZERO
"""The bits of -0, signed."""


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


def halves_finite(array: np.ndarray) -> bool:
    """Whether an array is fp16 and holds no infinity and no NaN. By its bits, many times faster than by its numbers:
    those of either sign are in the order of the magnitudes, and infinities and NaN are the largest."""
    if array.dtype != np.float16 or not array.size:
        return array.dtype == np.float16
    if array.size <= PART or not array.flags.forc:
        return _part_finite(array)
    flat = array.ravel("K")
    return all(_part_finite(flat[start:start + PART]) for start in range(0, flat.size, PART))


def _part_finite(array: np.ndarray) -> bool:
    return bool(array.view(np.int16).max() < _INFINITE and array.view(np.uint16).max() < _MINUS_INFINITE)


def nonzero(array: np.ndarray) -> int:
    """How many numbers of an array are neither 0 nor -0; of fp16 by its bits, as `halves_finite`: -0 is the least of
    them."""
    if array.dtype != np.float16 or not array.size:
        return int(np.count_nonzero(array))
    bits = array.ravel("K").view(np.int16)
    parts = (bits[start:start + PART] for start in range(0, bits.size, PART))
    return sum(int(np.count_nonzero(part)) - (int(np.count_nonzero(part == LEAST_BITS)) if part.min() == LEAST_BITS
                                              else 0) for part in parts)


def largest_magnitude(array: np.ndarray) -> float:
    """The largest magnitude, NaN where one is NaN, 0 of none; of fp16 by its bits, as `halves_finite`."""
    if not array.size:
        return 0.0
    if array.dtype != np.float16:
        return float(np.maximum(array.max(), -array.min()))
    ends = max(int(array.view(np.int16).max()), 0), int(array.view(np.uint16).max())
    return float(np.abs(np.array(ends, np.uint16).view(np.float16)).max())


def below_zero(array: np.ndarray) -> bool:
    """Whether a number of an array is below 0; of fp16 by its bits, as `halves_finite`, where a NaN may count as
    one."""
    if array.dtype != np.float16 or not array.size:
        return bool(array.min(initial=0) < 0)
    return bool(array.view(np.uint16).max() > _MINUS_ZERO)


def largest_exponent(value: float) -> int:
    """The largest power of two that a positive number may be multiplied by to stay an fp16 number; of others, many."""
    return math.floor(math.log2(LARGEST / value)) if value > 0 else 1 << 10
