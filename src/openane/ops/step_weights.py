"""Weights that count whole steps, as numbers of fp16, and in how fine parts of a step their products are added.

The accumulator adds multiples of 2^-16, to which each product is rounded, and holds sums of less than 2^15. A sum that
is made sixteen times its steps loses a sixteenth of that, and fp16 rounds it to whole steps all the same: beside 16
times 1536 its numbers are 16 apart. A layer of many inputs, whose sums may become large before they are small again,
has eight, four or two parts.
"""

from __future__ import annotations

import numpy as np

from openane.chips.arithmetic import SUM_LIMIT
from openane.ops.half_bits import from_half, to_half
from openane.ops.halves import SMALLEST_NORMAL
from openane.ops.rounding import WHOLE
from openane.ops.written_steps import PARTS
from openane.record_classes import dataclass

SMALL = 2.0 ** -16
"""A part of a step that sums may be off."""
ROOM = 1 - 2.0 ** -8
"""What share of the accumulator's range sums may take, beside what their products are rounded by."""


@dataclass(frozen=True, slots=True)
class StepWeights:
    """Weights [channels, inputs, ...] as numbers of fp16 whose sum they are; WHOLE and a bias as `rows` of fp16, and
    what that leaves of a step, as numbers whose sum it is. A step is so many `parts`, which all of these count."""

    pieces: tuple[np.ndarray, ...]
    rows: np.ndarray
    rest: tuple[np.ndarray, ...]
    parts: int


def step_weights(weight: np.ndarray, bias: np.ndarray, bounds: tuple[float, float] | None, scale: float) -> StepWeights:
    """Of weights and a bias in steps, for inputs between bounds, where these are known. Steps are multiplied by numbers
    from `scale` on, which fp16 holds with all digits by so many parts, too."""
    rows = _halves(WHOLE + bias)
    parts = 1 if bounds is None else _parts(weight, rows, bounds, scale / SMALLEST_NORMAL)
    rest = bias - (rows - WHOLE)
    return StepWeights(two_halves(weight * parts), rows * parts,
                       two_halves(rest * parts) if np.abs(rest).max() > SMALL else (), parts)


def _parts(weight: np.ndarray, rows: np.ndarray, bounds: tuple[float, float], limit: float) -> int:
    """In how many parts of a step sums have room, in whatever order they are added: at most `limit`."""
    ends = [weight.reshape(len(weight), -1) * bound for bound in bounds]
    above = np.maximum(np.maximum(*ends), 0).sum(1) + np.maximum(rows, 0)
    below = np.minimum(np.minimum(*ends), 0).sum(1) + np.minimum(rows, 0)
    most = max(above.max(), -below.min())
    return next((parts for parts in reversed(PARTS) if parts <= limit and most * parts < SUM_LIMIT * ROOM), 1)


def two_halves(numbers: np.ndarray) -> tuple[np.ndarray, ...]:
    """One or two numbers of fp16 for each, whose sum it is."""
    first = _halves(numbers)
    left = numbers - first
    return (first, left) if left.any() else (first,)


def _halves(numbers: np.ndarray) -> np.ndarray:
    return from_half(to_half(numbers.astype(np.float32))).astype(np.float64)
