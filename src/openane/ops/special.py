"""The inverse of the error function, the normal distribution's quantiles and modified Bessel functions.

Each is a table in a variable in which it is smooth, times what it grows with: erfinv(x) is x times a table of
-log(1 - x^2), exp(-|x|) I0(x) a table of 1 / sqrt(1 + |x|), which is a straight line where that is near 0. Infinities
and what is not defined are as everywhere on the engine: there is no NaN.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np

from openane.engine.table import Table
from openane.graph import Value
from openane.ops import special_functions, tables
from openane.ops.accuracy import TINY, Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.roots import LOG2E
from openane.ops.slopes import Terms
from openane.ops.small_differences import scaled_tail
from openane.ops.spec import Settings, Unary
from openane.ops.stages import Stages
from openane.ops.unary import unary_op

LOWER = 4
"""By how many powers of two exponentials are smaller, so that they are finite where a product with them is."""
MOST_INVERSE = 16.0
"""-log(1 - x^2) is less for every x of fp16 but 1, and for what lies beside 0 and 1 in a normal distribution."""
OVERFLOW = 13.25
"""From here on I0 is no number of fp16."""


@cache
def _inverse_share() -> Table:
    """erfinv(x) / x, of -log(1 - x^2)."""
    def share(v: np.ndarray) -> np.ndarray:
        known = np.clip(v, 1e-9, MOST_INVERSE)
        rest = np.exp(-known)
        x = np.sqrt(1 - rest)
        tail = rest / (1 + x)  # 1 - x
        near = special_functions.erfinv(np.minimum(x, 0.5))
        found = np.where(x < 0.5, near, -special_functions.ndtri(tail / 2) / math.sqrt(2)) / x
        return np.asarray(np.where(v < 1e-9, math.sqrt(math.pi) / 2, found))

    ends = share(np.array([0.0, MOST_INVERSE]))
    table = tables.fit(share, (0.0, float(ends[0])), (0.0, float(ends[1])), within=(0.0, MOST_INVERSE)).table
    return replace(table, high_clip=MOST_INVERSE, high_value=math.inf)


def _inverse(stages: Stages, target: Tensor, x: Tensor, rest: Tensor, gain: float) -> None:
    """gain * x * share(-log(rest)), rest = 1 - x^2."""
    share = stages.table(stages.table(rest, tables.log2()), _inverse_share(), scale=-math.log(2))
    stages.times(x, share, target=target, scale=half(gain))


def _erfinv(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """1 - x^2 is (1 - |x|) (1 + |x|), whose first factor is a number of fp16 where it is small."""
    below = stages.planar(x, absolute=True, scale=-1.0, bias=1.0)
    rest = stages.times(below, stages.planar(below, scale=-1.0, bias=2.0))
    _inverse(stages, target, x, rest, 1.0)


def _ndtri(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """sqrt(2) erfinv(2 x - 1), of which 1 less the square is 4 x (1 - x)."""
    rest = stages.times(x, stages.planar(x, scale=-1.0, bias=1.0), scale=4.0)
    _inverse(stages, target, stages.planar(x, scale=2.0, bias=-1.0), rest, math.sqrt(2))


def _erfcx(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """The tail at |x|, and below 0 what it lacks of 2 exp(x^2)."""
    tail = scaled_tail(stages, stages.planar(x, absolute=True))
    below = stages.table(x, tables.clip(-math.inf, 0.0))
    growth = stages.table(stages.times(below, below), tables.exp2(), scale=LOG2E)
    sign = stages.table(x, tables.step(-1.0, 1.0, 1.0))
    twice = stages.times(growth, stages.table(x, tables.step(2.0, 0.0, 0.0)))
    stages.planar(twice, stages.times(tail, sign), target=target)


@cache
def _bessel_share(order: int) -> Table:
    """exp(-x) I0(x), or exp(-x) I1(x) (1 + x) / x, of 1 / sqrt(1 + x), for x of 0 or more."""
    def share(root: np.ndarray) -> np.ndarray:
        x = 1 / np.square(np.clip(root, 2.0 ** -12, 1.0)) - 1
        if order == 0:
            found = special_functions.i0e(x)
        else:
            found = np.where(x == 0, 0.5, special_functions.i1e(x) * (1 + x) / np.where(x == 0, 1.0, x))
        return np.asarray(np.where(root <= 0, 0.0, found))

    return tables.fit(share, (0.0, 0.0), (0.0, (1.0, 0.5)[order]), within=(0.0, 1.0)).table


def _scaled(stages: Stages, x: Tensor, order: int, target: Tensor | None = None) -> Tensor:
    """exp(-|x|) times a modified Bessel function."""
    above = stages.planar(x, absolute=True, bias=1.0)
    if order == 0:
        return stages.table(stages.table(above, tables.rsqrt()), _bessel_share(0), target=target)
    share = stages.table(stages.table(above, tables.rsqrt()), _bessel_share(1))
    return stages.times(stages.times(x, stages.table(above, tables.inverse())), share, target=target)


def _grown(stages: Stages, target: Tensor, x: Tensor, order: int) -> None:
    """A modified Bessel function: what is scaled by exp(-|x|) times exp(|x|), which is held over 2^LOWER."""
    powers = tables.exp2()
    powers = replace(powers, high_clip=powers.high_clip + LOWER, knots=tuple(k / 2 ** LOWER for k in powers.knots))
    growth = stages.table(stages.planar(x, absolute=True), powers, scale=LOG2E)
    stages.times(growth, _scaled(stages, x, order), target=target, scale=2.0 ** LOWER)


def _first_slope(t: Terms, x: Value, y: Value) -> Value:
    """I1(x) / x, 1/2 at 0, scaled or not as y is: the quotient of numbers kept from 0."""
    far = t.of("maximum", t.of("abs", x), y=2.0 ** -6)
    return t.times(t.of("maximum", t.of("abs", y), y=2.0 ** -7), t.of("inverse", far, epsilon=0.0))


def _scaled_slope(t: Terms, x: Value, y: Value) -> Value:
    """The derivative of exp(-|x|) I0(x): exp(-|x|) I1(x) less sign(x) times the function."""
    return t.plus(t.of("bessel_i1e", x), t.line(t.times(t.of("sign", x), y), -1.0, 0.0))


def _scaled_first_slope(t: Terms, x: Value, y: Value) -> Value:
    """The derivative of exp(-|x|) I1(x): exp(-|x|) I0(x) less y (sign(x) + 1 / x)."""
    rest = t.plus(t.times(t.of("sign", x), y), _first_slope(t, x, y))
    return t.plus(t.of("bessel_i0e", x), t.line(rest, -1.0, 0.0))


OPS = tuple(map(unary_op, (
    Unary("erfcx", special_functions.erfcx, Bound(TINY, 8e-3, -3.2, 65504.0), compose=_erfcx,
          slope=lambda t, x, y, s: t.line(t.times(x, y), 2.0, -2 / math.sqrt(math.pi))),
    Unary("erfinv", special_functions.erfinv, Bound(TINY, 3e-3, -1.0, 1.0), compose=_erfinv,
          slope=lambda t, x, y, s: t.line(t.of("exp", t.of("square", y)), math.sqrt(math.pi) / 2, 0.0)),
    Unary("bessel_i0", special_functions.i0, Bound(TINY, 6e-3, -OVERFLOW, OVERFLOW),
          slope=lambda t, x, y, s: t.of("bessel_i1", x),
          compose=lambda stages, target, x, s: _grown(stages, target, x, 0)),
    Unary("bessel_i0e", special_functions.i0e, Bound(TINY, 4e-3), slope=lambda t, x, y, s: _scaled_slope(t, x, y),
          compose=lambda stages, target, x, s: _scaled(stages, x, 0, target)),
    Unary("bessel_i1", special_functions.i1, Bound(TINY, 6e-3, -OVERFLOW, OVERFLOW),
          slope=lambda t, x, y, s: t.plus(t.of("bessel_i0", x), t.line(_first_slope(t, x, y), -1.0, 0.0)),
          compose=lambda stages, target, x, s: _grown(stages, target, x, 1)),
    Unary("bessel_i1e", special_functions.i1e, Bound(TINY, 5e-3), slope=lambda t, x, y, s: _scaled_first_slope(t, x, y),
          compose=lambda stages, target, x, s: _scaled(stages, x, 1, target)),
    Unary("ndtri", special_functions.ndtri, Bound(2e-3, 3e-3, 0.0, 1.0), compose=_ndtri,
          slope=lambda t, x, y, s: t.line(t.of("exp", t.line(t.of("square", y), 0.5, 0.0)),
                                          math.sqrt(2 * math.pi), 0.0)),
)))
