"""How far the engine's functions are from the mathematical ones.

A bound holds for every fp16 input of its domain: |result - f(x)| <= absolute + relative * |f(x)|, the rounding of the
result to fp16 included, in exact and in fast arithmetic. Domains end where results leave fp16 or a composition loses
its meaning; outside them tables give their constants.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

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

BOUNDS: Mapping[str, Bound] = {
    "abs": EXACT,
    "acos": Bound(3e-3, ULP, -1.0, 1.0),
    "asin": Bound(2e-3, ULP, -1.0, 1.0),
    "atan": Bound(2.5e-3),
    "atanh": Bound(3e-3, 1e-3, -1 + ULP, 1 - ULP),
    "ceil": EXACT,
    "clamped_relu": ROUNDED,
    "clip": EXACT,
    "cos": Bound(2e-3, ULP, -3200.0, 3200.0),
    "cosh": Bound(0.0, 4e-3, -11.7, 11.7),
    "elu": Bound(6e-3),
    "erf": Bound(2e-3),
    "exp": Bound(TINY, 4e-3, -17.0, 11.08),
    "exp2": Bound(TINY, 2e-3, -24.0, 15.99),
    "floor": EXACT,
    "gelu": Bound(6e-3),
    "inverse": Bound(TINY, 2e-3, 2.0 ** -14, math.inf),
    "leaky_relu": ROUNDED,
    "linear_activation": ROUNDED,
    "log": Bound(6e-3, 1e-3, TINY, 65504.0),
    "relu": EXACT,
    "relu6": EXACT,
    "round": EXACT,
    "rsqrt": Bound(0.0, 2.5e-3, TINY, 65504.0),
    "scaled_tanh": Bound(3e-3),
    "sigmoid": Bound(4e-3),
    "sigmoid_hard": Bound(5e-4),
    "sign": EXACT,
    "silu": Bound(1.3e-2),
    "sin": Bound(2e-3, ULP, -3200.0, 3200.0),
    "sinh": Bound(3e-3, 4e-3, -11.7, 11.7),
    "softplus": Bound(7e-3),
    "softsign": Bound(2e-3),
    "sqrt": Bound(TINY, 2e-3, 0.0, 65504.0),
    "square": Bound(TINY, ULP, -255.9, 255.9),
    "tan": Bound(2e-3, 2e-3, -1.4, 1.4),
    "tanh": Bound(2e-3),
    "threshold": EXACT,
    "thresholded_relu": EXACT,
}
