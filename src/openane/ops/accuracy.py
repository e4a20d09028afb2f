"""How far the engine's functions are from the mathematical ones.

A bound holds for every fp16 input of its domain: |result - f(x)| <= absolute + relative * |f(x)|, the rounding of the
result to fp16 included, in exact and in fast arithmetic. Domains end where results leave fp16 or a composition loses
its meaning; outside them tables give their constants.
"""

from __future__ import annotations

import math

from openane.record_classes import dataclass

FUNCTIONS = "functions"
CLOSE = "close"
CLOSE_IF_SAFE = "close if safe"
"""Key of a graph's metadata, and what it says where functions should err as little as fp16 itself, for a few tasks
more, always or where the precision is `safe`: importers of networks that were made for other machines say so. Without
it a function is what Apple's compiler makes of it, one table."""
ULP = 2.0 ** -11
"""Rounding to fp16, relative."""
TINY = 2.0 ** -24
"""The spacing of fp16 numbers near 0."""


@dataclass(frozen=True, slots=True)
class Bound:
    """absolute + relative * |f(x)| for low <= x <= high."""

    absolute: float
    relative: float = ULP
    low: float = -math.inf
    high: float = math.inf

    def __str__(self) -> str:
        if self == EXACT:
            return "exact"
        error = " + ".join(part for part in (f"{self.absolute:.2g}" if self.absolute else "",
                                             f"{self.relative:.2g} of the value" if self.relative else "") if part)
        span = "" if math.isinf(self.low) and math.isinf(self.high) else f" for x in [{self.low:g}, {self.high:g}]"
        return f"within {error}{span}"


EXACT = Bound(0.0, 0.0)
ROUNDED = Bound(TINY, 2 * ULP)
