"""Tables of functions between two constants, with the function's own values as knots.

The knots reach the power of two from which on the function is within 2^-10 of its limits. An odd function is its limit
from there on; another continues by a chord to a clip, where the constant begins. The rule gives, byte for byte, the
tables of tanh and sigmoid in Apple's programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.ops.tables import Function, Line, finite_halves, rounded

CLOSE = 2.0 ** -10
INTERVALS = KNOTS - 1


def odd_table(function: Function, limit: float) -> Table:
    """An odd function that goes to `limit`: knots from 0 on, the limit behind the last one."""
    reach = _reach(lambda end: abs(float(function(np.array([end]))[0]) - limit))
    knots = rounded(function(np.arange(KNOTS) * reach / INTERVALS))
    return Table(0.0, reach, 0.0, limit, knots, high_intercept=limit, exponent=_exponent(reach / INTERVALS),
                 symmetry=Symmetry.ODD)


def centred_table(function: Function, low_limit: float, high_limit: float) -> Table:
    """A function that goes from `low_limit` to `high_limit`: knots on both sides of 0, a chord beyond either end."""
    limits = np.array([low_limit, high_limit])
    reach = _reach(lambda end: float(np.abs(function(np.array([-end, end])) - limits).max()))
    half = INTERVALS // 2
    knots = rounded(function((np.arange(KNOTS) - half) * reach / half))
    low_clip, low = _tail(function, -reach, knots[0], low_limit)
    high_clip, high = _tail(function, reach, knots[-1], high_limit)
    return Table(low_clip, high_clip, low_limit, high_limit, knots, *low, *high, exponent=_exponent(reach / half),
                 kind=TableKind.CENTRED)


def _reach(distance: Callable[[float], float]) -> float:
    """The first power of two at which the distance from the limits is small."""
    return next((end for end in (2.0 ** k for k in range(-8, 15)) if distance(end) <= CLOSE), 2.0 ** 15)


def _exponent(spacing: float) -> int:
    return round(-math.log2(spacing))


def _tail(function: Function, end: float, value: float, limit: float) -> tuple[float, Line]:
    """The clip and the line from (end, value) to (clip, limit). The clip is the last number at which the constant's
    error is not below the chord's, and no further out than where the function rounds to its limit."""
    x = finite_halves()
    x = x[x > end] if end > 0 else x[x < end][::-1]
    wanted = function(x)
    with np.errstate(over="ignore"):
        settled = np.flatnonzero(wanted.astype(np.float16) == np.float16(limit))
    clip = float(x[0])
    for position in range(int(settled[0]) + 1 if settled.size else len(x)):
        slope = (limit - value) / (float(x[position]) - end)
        chord = limit + slope * (x[:position] - x[position])
        if np.abs(chord - wanted[:position]).max(initial=0.0) > abs(limit - float(wanted[position])):
            break
        clip = float(x[position])
    slope = (limit - value) / (clip - end)
    line = rounded(np.array([slope, limit - slope * clip]))
    return clip, (line[0], line[1])
