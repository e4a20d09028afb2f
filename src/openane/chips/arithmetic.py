"""How a generation's multiply-accumulate array computes, in numbers; `simulator.rules` states every rule.

The step and the end of its sums were solved from error norms and probes of M1 to M6; no measured chip has others.
"""

from __future__ import annotations

from openane.record_classes import dataclass

QUANTUM = 2.0 ** -16
"""Products are rounded to multiples of this before they are added."""
SUM_LIMIT = 2.0 ** 15
"""A sum of two or more products of this magnitude is infinite."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`winograd`: dense 3x3 convolutions of stride 1 run through F(2, 3) along the width. `crop_gain`: a slice of the
    width that begins inside goes through a gain of 16."""

    winograd: bool = False
    crop_gain: bool = False
    quantum: float = QUANTUM
    sum_limit: float = SUM_LIMIT
