"""Products of two tensors of whole steps that become whole steps again.

Steps are whole numbers and enter the product as such, times small whole numbers and powers of two, so that nothing is
rounded before the sum; its post stage multiplies that by one number of fp16. The three are chosen such that together
they are what one product of steps is in steps of the result. 1536, by that number, is the product of two more rows with
ones, so that storing the sum rounds it to the nearest step.
"""

from __future__ import annotations

import math

from openane.ops.halves import LARGEST, SMALLEST_NORMAL, half
from openane.ops.rounding import EXACT_WHOLE, WHOLE
from openane.record_classes import dataclass

MULTIPLES = range(1, 9)
SCALE = 0.25
"""The post stage multiplies by this at the least, and by less than twice as much: sums are some thousands then, and
have room for more steps than there are."""


@dataclass(frozen=True, slots=True)
class StepProduct:
    """What steps of the first and of the second operand are times, what the sum is multiplied by, and the two numbers
    whose sum is WHOLE by that."""

    first: float
    second: float
    scale: float
    whole: tuple[float, float]


def step_product(size: float, most_first: float, most_second: float) -> StepProduct | None:
    """For steps of at most so many, whose product is `size` steps of the result; None where there is none in fp16."""
    found, least = None, math.inf
    for first in MULTIPLES:
        for second in MULTIPLES:
            if max(first * most_first, second * most_second) > EXACT_WHOLE:
                continue
            power = math.ceil(math.log2(SCALE * first * second / size))
            exact = size / (first * second) * 2.0 ** power
            scale = half(exact)
            if abs(scale / exact - 1) < least:
                least = abs(scale / exact - 1)
                found = first, second, power, scale
    if found is None:
        return None
    first, second, power, scale = found
    counts = first * 2.0 ** -(power - power // 2), second * 2.0 ** -(power // 2)
    high = half(WHOLE / scale)
    made = StepProduct(*counts, scale, (high, half(WHOLE / scale - high)))
    return made if all(SMALLEST_NORMAL <= count <= LARGEST / EXACT_WHOLE for count in counts) else None

