"""lgamma, digamma and trigamma: tables in log(1 + x) and 1 / (1 + x), in which they are smooth for x of 0 or more.

log(gamma(1 + x)) is x (x - 1) / (x + 1) times a table, so that its zeros are where they should be; digamma(1 + x) is
log(1 + x) less a table of 1 / (1 + x), trigamma(1 + x) that inverse times a table of it. From 0 to 1 the recurrence
adds what is infinite at 0, and below 0 the reflection what is infinite at every whole number, of the distance to the
nearest, which fp16 has in all its digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from openane.engine import Binary
from openane.engine.table import Table
from openane.errors import GraphError
from openane.graph import Value
from openane.ops import special_functions, tables
from openane.ops.accuracy import Bound
from openane.ops.halves import half
from openane.ops.lowering import Tensor
from openane.ops.rounding import nearest
from openane.ops.slopes import Terms
from openane.ops.spec import Settings, Unary
from openane.ops.stages import Stages
from openane.ops.unary import unary_op

LN2 = half(math.log(2))
FARTHEST = 11.25
"""log(1 + x) is less for every x of fp16."""
LAST_KNOT = 8.0
"""The knots of the table of log(1 + x) reach so far, beyond them the gamma function grows as a line of it."""
LOWEST = -512.0
"""From here on numbers are rounded to whole ones; poles are every half number soon."""


@cache
def _growth() -> Table:
    """log(gamma(1 + x)) (x + 1) / (x (x - 1)), of log(1 + x); far out the line it approaches."""
    def share(u: np.ndarray) -> np.ndarray:
        x = np.expm1(np.clip(u, 0.0, FARTHEST))
        near = (np.abs(x) < 1e-4) | (np.abs(x - 1) < 1e-4)
        apart = np.where(near, 0.5, x)
        found = special_functions.lgamma(1 + apart) * (apart + 1) / (apart * (apart - 1))
        euler = -float(special_functions.digamma(np.array(1.0)))
        return np.asarray(np.where(near, np.where(x < 0.5, euler, 2 * (1 - euler)), found))

    ends = np.array([LAST_KNOT, FARTHEST])
    line = float(np.mean(share(ends) - ends))
    return tables.fit(share, (0.0, 1.0), (1.0, line), within=(0.0, LAST_KNOT)).table


@cache
def _lag() -> Table:
    """log(1 + x) - digamma(1 + x), of 1 / (1 + x)."""
    def lag(share: np.ndarray) -> np.ndarray:
        z = 1 / np.clip(share, 2.0 ** -24, 1.0)
        return np.asarray(np.where(share <= 0, 0.0, np.log(z) - special_functions.digamma(z)))

    return tables.fit(lag, (0.0, 0.0), (0.0, float(lag(np.array([1.0]))[0])), within=(0.0, 1.0)).table


@cache
def _curvature() -> Table:
    """trigamma(1 + x) (1 + x), of 1 / (1 + x)."""
    def share(inverse: np.ndarray) -> np.ndarray:
        z = 1 / np.clip(inverse, 2.0 ** -24, 1.0)
        return np.asarray(np.where(inverse <= 0, 1.0, special_functions.trigamma(z) * z))

    return tables.fit(share, (0.0, 1.0), (0.0, float(share(np.array([1.0]))[0])), within=(0.0, 1.0)).table


def _of_turn(function: Callable[[np.ndarray], np.ndarray], at_zero: float, odd: bool) -> Table:
    """A function of a distance from a whole number, 0 to 1/2."""
    def known(f: np.ndarray) -> np.ndarray:
        inside = np.clip(f, 1e-3, 0.5)
        return np.asarray(np.where(f < 1e-3, at_zero, function(inside)))

    return tables.fit(known, (0.0, at_zero), (0.0, float(known(np.array([0.5]))[0])), odd=odd, within=(0.0, 0.5)).table


@cache
def _bowl() -> Table:
    """-log(sin(pi f) / (pi f))."""
    return _of_turn(lambda f: -np.log(np.sin(math.pi * f) / (math.pi * f)), 0.0, odd=False)


@cache
def _cotangent_rest() -> Table:
    """1 / f - pi cot(pi f), an odd function."""
    return _of_turn(lambda f: 1 / f - math.pi / np.tan(math.pi * f), 0.0, odd=True)


@cache
def _sine_rest() -> Table:
    """(pi / sin(pi f))^2 - 1 / f^2, less its value at 0."""
    value = math.pi ** 2 / 3
    return _of_turn(lambda f: np.square(math.pi / np.sin(math.pi * f)) - 1 / np.square(f) - value, 0.0, odd=False)


def _turn(stages: Stages, x: Tensor) -> Tensor:
    """Below 0 the distance from the nearest whole number, with its sign; 0 elsewhere."""
    below = stages.table(x, tables.clip(LOWEST, 0.0))
    return stages.planar(nearest(stages, below), below, pre_scale=-1.0)


def _lgamma(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """Of x from 1 on log(gamma(1 + (x - 1))), from 0 on log(gamma(1 + x)) - log(x), below 0
    log(pi / |sin(pi x)|) - log(gamma(1 + |x|))."""
    signed = stages.table(x, tables.two_slopes((1.0, 1.0), 0.0, (1.0, 0.0)), bias=-1.0)
    size = stages.planar(signed, absolute=True)
    above = stages.planar(size, bias=1.0)
    share = stages.times(stages.planar(size, bias=-1.0), stages.table(above, tables.inverse()))
    growth = stages.table(stages.table(above, tables.log2()), _growth(), scale=math.log(2))
    gamma = stages.times(stages.times(signed, share), growth)
    turn = stages.planar(_turn(stages, x), absolute=True)
    pole = stages.planar(turn, stages.table(x, tables.clip(0.0, 1.0)))
    infinite = stages.table(pole, tables.log2())
    stages.planar(stages.planar(infinite, gamma, pre_scale=-LN2), stages.table(turn, _bowl()), target=target)


def _digamma(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """digamma(1 + |x|) - 1 / x, and below 0 digamma(1 + |x|) - pi cot(pi x)."""
    above, turn = stages.planar(x, absolute=True, bias=1.0), _turn(stages, x)
    lag = stages.table(stages.table(above, tables.inverse()), _lag())
    smooth = stages.planar(stages.table(above, tables.log2()), lag, pre_scale=LN2, subtract=True)
    pole = stages.table(stages.planar(turn, stages.table(x, tables.clip(0.0, math.inf))), tables.inverse())
    rest = stages.planar(stages.table(turn, _cotangent_rest()), smooth)
    stages.planar(rest, pole, subtract=True, target=target)


def _trigamma(stages: Stages, target: Tensor, x: Tensor, s: Settings) -> None:
    """1 / x^2 + trigamma(1 + |x|), and below 0 (pi / sin(pi x))^2 - trigamma(1 + |x|)."""
    turn = _turn(stages, x)
    share = stages.table(stages.planar(x, absolute=True, bias=1.0), tables.inverse())
    smooth = stages.times(share, stages.table(share, _curvature()))
    signed = stages.times(smooth, stages.table(x, tables.step(-1.0, 1.0, 1.0)))
    whole = stages.table(x, tables.step(half(math.pi ** 2 / 3), 0.0, 0.0))
    rest = stages.planar(stages.table(stages.planar(turn, absolute=True), _sine_rest()), whole)
    pole = stages.table(stages.planar(turn, stages.table(x, tables.clip(0.0, math.inf))), tables.inverse())
    stages.planar(stages.times(pole, pole), stages.planar(rest, signed), Binary.ADD, target=target)


def _no_slope(t: Terms, x: Value, y: Value, s: Settings) -> Value:
    raise GraphError("trigamma has no gradient here: a loss may depend on lgamma and digamma, and not on trigamma")


OPS = tuple(map(unary_op, (
    Unary("digamma", special_functions.digamma, Bound(4e-3, 3e-3, 2.0 ** -15, 65504.0), compose=_digamma,
          slope=lambda t, x, y, s: t.of("trigamma", x)),
    Unary("lgamma", special_functions.lgamma, Bound(4e-3, 4e-3, 0.0, 8128.0), compose=_lgamma,
          slope=lambda t, x, y, s: t.of("digamma", x)),
    Unary("trigamma", special_functions.trigamma, Bound(4e-3, 3e-3, 2.0 ** -7, 65504.0), compose=_trigamma,
          slope=_no_slope),
)))
