"""Which arithmetic a task runs in, and what is common to both: infinities among the operands, saturation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import StrEnum

import numpy as np

from openane.errors import SimulationError
from openane.record_classes import dataclass
from openane.simulator.arithmetic import exact, fast
from openane.simulator.arithmetic.half import Doubles, Floats
from openane.simulator.arithmetic.overflow import overflow_inside, overflow_inside_channels

EXACT_PRODUCTS = 1 << 24
"""`auto` computes a task exactly up to this many products (about 20 ms), in float32 beyond."""

COMPILED_FROM = 1 << 22
"""Products of a program from which the compiled form of `exact` is taken: below, importing numba takes longer."""
COMPILED_TASK = 1 << 12
"""Products of one of its tasks from which it pays."""

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


class SumForm(StrEnum):
    """What forms the sums of products. All forms of one mode give the same bits."""

    NUMPY = "numpy"
    NUMBA = "numba"

    @staticmethod
    def choose(mode: Mode, tasks: Iterable[int]) -> SumForm:
        """The fastest there is for a program whose tasks have so many products: numba's where it is installed."""
        if sum(products for products in tasks if mode.choose(products) is Mode.EXACT) < COMPILED_FROM:
            return SumForm.NUMPY
        try:
            _functions(Mode.EXACT, SumForm.NUMBA)
        except ImportError:
            return SumForm.NUMPY
        return SumForm.NUMBA

    def of(self, products: int) -> SumForm:
        """For one task of the program."""
        return self if products >= COMPILED_TASK else SumForm.NUMPY


Function = Callable[[Floats, Floats], Sums]


def _functions(mode: Mode, form: SumForm) -> tuple[Function, Function]:
    """What computes `outer` and `channels`. ImportError where numba is not installed."""
    if mode is not Mode.EXACT:
        return fast.outer_sums, fast.channel_sums
    if form is SumForm.NUMPY:
        return exact.outer_sums, exact.channel_sums
    from openane.simulator.arithmetic import compiled  # numba: only when asked for, it takes a second
    return compiled.outer_sums, compiled.channel_sums


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Sums of products in one mode, infinite operands included.

    An infinite product makes its sum infinite; infinities of both signs give +0, and so does zero times infinity.
    """

    mode: Mode
    form: SumForm = SumForm.NUMPY

    def outer(self, left: Floats, right: Floats, *, finite: bool = False) -> Sums:
        """Sum over k of left[k, i] * right[k, j]: [i, j]. `finite` says that neither holds an infinity."""
        compute = _functions(self.mode, self.form)[0]
        return _with_infinities(self._ranged(compute, overflow_inside), fast.outer_sums, left, right, finite)

    def channels(self, weights: Floats, columns: Floats, *, finite: bool = False) -> Sums:
        """Sum over k of weights[k, c] * columns[k, c, j]: [c, j]."""
        compute = self._ranged(_functions(self.mode, self.form)[1], overflow_inside_channels)
        return _with_infinities(compute, fast.channel_sums, weights, columns, finite)

    def _ranged(self, compute: Function, overflow: Callable[[Doubles, Floats, Floats], None]) -> Function:
        """With the accumulator's range applied while sums are made; `fast` knows it of whole sums only."""
        if self.mode is not Mode.EXACT:
            return compute

        def ranged(left: Floats, right: Floats) -> Sums:
            sums = compute(left, right)
            overflow(sums, left, right)
            return sums

        return ranged


def saturate(sums: Sums) -> None:
    """Makes magnitudes of 2^15 and more infinite, in place: the accumulator's range."""
    if sums.size and not (np.maximum.reduce(sums, axis=None) < exact.SATURATION
                          and np.minimum.reduce(sums, axis=None) > -exact.SATURATION):
        beyond = np.abs(sums) >= exact.SATURATION
        sums[beyond] = np.copysign(np.inf, sums[beyond])


def _with_infinities(compute: Function, count: Function, left: Floats, right: Floats, finite: bool) -> Sums:
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
    return values.size == 0 or (math.isfinite(np.maximum.reduce(values, axis=None))
                                and math.isfinite(np.minimum.reduce(values, axis=None)))
