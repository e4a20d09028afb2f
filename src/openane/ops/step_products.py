"""Products of two tensors of whole steps that become whole steps again.

Steps are whole numbers and enter the product as such, times small whole numbers and powers of two, so that nothing is
rounded before the sum; its post stage multiplies that by one number of fp16. The three are chosen such that together
they are what one product of steps is in steps of the result. Where they are not near enough, the second operand is
there twice, the second time by another small number, and so is the first, as it is. 1536, by the number of the post
stage, is the product of three more rows with ones, so that storing the sum rounds it to the nearest step.
"""

from __future__ import annotations

import math
from dataclasses import replace

from openane.ops.halves import LARGEST, SMALLEST_NORMAL, half
from openane.ops.rounding import EXACT_WHOLE, WHOLE
from openane.record_classes import dataclass

MULTIPLES = range(1, 9)
SCALE = 0.25
"""The post stage multiplies by this at the least, and by less than twice as much: sums are some thousands then, and
have room for more steps than there are."""
NEAR = 2.0 ** -13
"""By how many steps results may be off, where the second operand is there once."""
LEAST = 2.0 ** -13
MOST = 16.0
"""What steps of an operand are times at the least and at the most, where the second one is there twice."""


@dataclass(frozen=True, slots=True)
class StepProduct:
    """What steps of the first operand are times, and those of the second, once or twice; what the sum is multiplied by,
    and numbers whose sum is WHOLE by that. `error`: by which share of it the product is off."""

    first: float
    second: tuple[float, ...]
    scale: float
    whole: tuple[float, ...]
    error: float


def step_product(size: float, most_first: float, most_second: float, most: float) -> StepProduct | None:
    """For steps of at most so many, whose product is `size` steps of the result, which are at most `most`; None where
    there is none in fp16."""
    once = [_made(size, first, second) for first in MULTIPLES for second in MULTIPLES
            if max(first * most_first, second * most_second) <= EXACT_WHOLE]
    found = min(filter(_usable, once), key=_error, default=None)
    if found is None or found.error * most <= NEAR:
        return found
    twice = [_twice(size, made, second) for made in once for second in MULTIPLES if second * most_second <= EXACT_WHOLE]
    return min((found, *filter(_usable, twice)), key=_error)


def _made(size: float, first: int, second: int) -> StepProduct:
    """By two multiples, and the number of fp16 that is left."""
    power = math.ceil(math.log2(SCALE * first * second / size))
    exact = size / (first * second) * 2.0 ** power
    scale = half(exact)
    return StepProduct(first * 2.0 ** -(power - power // 2), (second * 2.0 ** -(power // 2),), scale, _whole(scale),
                       abs(scale / exact - 1))


def _twice(size: float, made: StepProduct, more: int) -> StepProduct:
    """With the second operand a second time, by the power of two of a multiple that is nearest to what is left."""
    moved = 2.0 ** max(0, math.floor(math.log2(min(made.first / LEAST, MOST / made.second[0]))))
    first, second = made.first / moved, made.second[0] * moved
    left = size / made.scale / first - second
    again = 0.0 if not left else math.copysign(more * 2.0 ** round(math.log2(abs(left) / more)), left)
    return replace(made, first=first, second=(second, again), error=abs(left - again) / second)


def _whole(scale: float) -> tuple[float, ...]:
    """WHOLE by a number, as three numbers of fp16 whose sum it is."""
    found: tuple[float, ...] = ()
    for _ in range(3):
        found += (half(WHOLE / scale - sum(found)),)
    return found


def _usable(made: StepProduct) -> bool:
    """Whether fp16 holds all numbers of steps, times what they are."""
    return all(SMALLEST_NORMAL <= abs(count) <= LARGEST / EXACT_WHOLE for count in (made.first, *made.second))


def _error(made: StepProduct) -> float:
    return made.error
