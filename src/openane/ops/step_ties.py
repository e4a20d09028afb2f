"""Sums and products of whole steps that are near the middle between two steps of their result, and which factors leave
the engine on their right side of it.

The engine adds 1536 in fp32, whose numbers are 2^-13 apart there: what is nearer to a middle may be rounded to it, and
then to the even step. Quantisers measure a result's range, which makes its step a multiple of few numbers and such
sums common. Of factors that are as good as each other, some have all of these clearly beside the middle.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from openane.graph import Node
from openane.ops.written_steps import MOST, stated_of, two_factors
from openane.record_classes import dataclass

WITHIN = 2.0 ** -8
"""How near the middle products are looked at, in steps: no factor that is tried moves one of 256 steps by more."""
CLEAR = 2.0 ** -13
"""How far beside the middle a sum must be, so that fp32 has it there when 1536 was added."""
SAME = 2.0 ** -18
"""How near the middle nothing is decided: fp32 finds one step or the other, in the order it adds."""
SHIFTS = np.arange(1, 25) * 2.0 ** -21
"""By which shares of itself a factor is another one, as it is tried."""
Tried = TypeVar("Tried")
Result = Callable[..., np.ndarray]
"""What becomes of whole numbers, in steps that are not rounded."""


@dataclass(frozen=True, slots=True)
class WantedSteps:
    """Whole numbers, of one operand or of each of two, and the steps that what becomes of them is to be rounded to."""

    numbers: tuple[np.ndarray, ...]
    steps: np.ndarray

    def missed(self, result: Result) -> int:
        """How many results are not clearly these steps."""
        return int(np.count_nonzero(~(np.abs(result(*self.numbers) - self.steps) <= 0.5 - CLEAR)))

    def best(self, tried: Sequence[Tried], result: Callable[[Tried], Result]) -> Tried:
        """The first of those with which the fewest are missed."""
        missed: list[int] = []
        for each in tried:
            missed.append(self.missed(result(each)))
            if not missed[-1]:
                break
        return tried[int(np.argmin(missed))]


def numbers_of(node: Node) -> np.ndarray:
    """The whole numbers that a nearest_steps makes; none where they have no bounds."""
    low, high, zero = (stated_of(node, name) for name in ("low", "high", "zero"))
    return np.arange(low, high + 1) + zero if math.isfinite(high - low) else np.zeros(0)


def ties(first: np.ndarray, second: np.ndarray, result: Result) -> WantedSteps:
    """Those among all pairs of numbers of two kinds that come near the middle between two steps."""
    x, y = (each.ravel() for each in np.meshgrid(first, np.unique(second), indexing="ij"))
    exact = result(x, y)
    away = np.abs(exact - np.floor(exact) - 0.5)
    near = (away < WITHIN) & (away > SAME) & (np.abs(exact) < MOST)
    return WantedSteps((x[near], y[near]), np.rint(exact[near]))


def product_units(units: float, first: np.ndarray, second: np.ndarray) -> float:
    """A number like `units` that products of whole numbers of two kinds are multiplied by."""
    tried = [units, *(units * (1 + sign * shift) for shift in SHIFTS for sign in (1, -1))]
    return float(ties(first, second, lambda x, y: x * y * units).best(tried, lambda each: partial(_multiplied, each)))


def _multiplied(units: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    factors = two_factors(float(np.float32(units)))
    return np.asarray(x * y * (math.prod(factors) if factors is not None else math.nan))
