"""Which arithmetic a task runs in, and what is common to both: infinities among the operands, saturation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from openane.errors import SimulationError
from openane.simulator.arithmetic import exact, fast
from openane.simulator.arithmetic.half import Floats

EXACT_PRODUCTS = 1 << 24
"""`auto` computes a task exactly up to this many products (about 20 ms), in float32 beyond."""

Sums = np.ndarray
"""float64 from `exact`, float32 from `fast`."""


class Mode(StrEnum):
    """How multiply-accumulate is computed."""

    EXACT = "exact"
    FAST = "fast"
    AUTO = "auto"

    @staticmethod
    def of(name: str) -> Mode:
        """The mode called `name`; SimulationError lists the known ones."""
        try:
            return Mode(name)
        except ValueError:
            known = ", ".join(Mode)
            raise SimulationError(f"arithmetic {name!r} is not known; there are {known}") from None

    def choose(self, products: int) -> Mode:
        """EXACT or FAST for a task of `products` multiplications."""
        if self is not Mode.AUTO:
            return self
        return Mode.EXACT if products <= EXACT_PRODUCTS else Mode.FAST


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Sums of products in one mode, infinite operands included.

    An infinite product makes its sum infinite; infinities of both signs give +0, and so does zero times infinity.
    """

    mode: Mode

    def outer(self, left: Floats, right: Floats, *, finite: bool = False) -> Sums:
        """Sum over k of left[k, i] * right[k, j]: [i, j]. `finite` says that neither holds an infinity."""
        function = exact.outer_sums if self.mode is Mode.EXACT else fast.outer_sums
        return _with_infinities(function, fast.outer_sums, left, right, finite)

    def channels(self, weights: Floats, columns: Floats, *, finite: bool = False) -> Sums:
        """Sum over k of weights[k, c] * columns[k, c, j]: [c, j]."""
        function = exact.channel_sums if self.mode is Mode.EXACT else fast.channel_sums
        return _with_infinities(function, fast.channel_sums, weights, columns, finite)


def saturate(sums: Sums) -> None:
    """Makes magnitudes of 2^15 and more infinite, in place: the accumulator's range."""
    if sums.size and not (sums.max() < exact.SATURATION and sums.min() > -exact.SATURATION):
        beyond = np.abs(sums) >= exact.SATURATION
        sums[beyond] = np.copysign(np.inf, sums[beyond])


def _with_infinities(compute: Callable[[Floats, Floats], Sums], count: Callable[[Floats, Floats], Sums],
                     left: Floats, right: Floats, finite: bool) -> Sums:
    if finite or (all_finite(left) and all_finite(right)):
        return compute(left, right)
    calm_left, calm_right = (np.where(np.isinf(a), np.float32(0), a) for a in (left, right))
    sums = compute(calm_left, calm_right)
    signs = [np.sign(a) for a in (left, right, calm_left, calm_right)]
    infinite = count(np.abs(signs[0]), np.abs(signs[1])) - count(np.abs(signs[2]), np.abs(signs[3]))
    net = count(signs[0], signs[1]) - count(signs[2], signs[3])
    sums[infinite > 0] = 0
    one_sided = (infinite > 0) & (np.abs(net) == infinite)
    sums[one_sided] = np.copysign(np.inf, net[one_sided])
    return sums


def all_finite(values: Floats) -> bool:
    """Whether there is no infinity among the values."""
    return values.size == 0 or bool(np.isfinite(values.max()) and np.isfinite(values.min()))
