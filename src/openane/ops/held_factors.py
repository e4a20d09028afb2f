"""Products with constants that fp16 does not hold: powers of two, which change no digit, one after another."""

from __future__ import annotations

import math

import numpy as np

from openane.graph import RoundedArray, Value
from openane.ops.build import GraphBuilder
from openane.ops.half_bits import to_half
from openane.ops.halves import LARGEST, SMALLEST_NORMAL

STEP = 12
"""The power of two of one product: fp16 holds twice as many of its kind."""


def multiplied(builder: GraphBuilder, x: Value, factor: float | np.ndarray) -> Value:
    """x times a number, or numbers that it is multiplied by element by element. Where fp16 holds the largest of them
    with all digits that is one product; else as many as bring it there."""
    numbers = np.asarray(factor, np.float64)
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest and not SMALLEST_NORMAL <= largest <= LARGEST:
        power = math.frexp(largest)[1] - 1
        x, numbers = shifted(builder, x, power), numbers * 2.0 ** -power
        if (numbers == 1).all() and numbers.size == 1:
            return x
    return builder.single("mul", x=x, y=with_digits(numbers))


def with_digits(factor: np.ndarray) -> float | np.ndarray | RoundedArray:
    """A constant in fp16 of numbers in float64, whose digits are kept where fp16 has a number for each."""
    if float(np.abs(factor).max(initial=0.0)) > LARGEST:
        return factor.item() if factor.size == 1 else factor
    single = factor.reshape(()) if factor.size == 1 else factor
    return RoundedArray(to_half(single), single)


def shifted(builder: GraphBuilder, x: Value, power: int) -> Value:
    """x times 2^power, in as many steps as fp16 has factors with all digits."""
    while power:
        step = max(-STEP, min(power, STEP))
        x, power = builder.single("mul", x=x, y=2.0 ** step), power - step
    return x
