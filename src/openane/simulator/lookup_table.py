"""Evaluates the neural engine's activation table on the unrounded accumulator.

A table maps x to a knot position, interpolates linearly between its 33 knots, and has two slopes and two constants
for what lies outside. Evidence: this rule fits every table of the Apple-made programs; a table of n = 64 vanishes and
leaves the two slopes. Roots and logarithms of negative numbers are +0, measured on M1, whatever their table holds for
what lies below the low clip.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.simulator.arithmetic.half import BLOCK, Doubles, Floats

LAST = KNOTS - 1
CENTRES = {TableKind.FROM_START: 0.0, TableKind.CENTRED: LAST / 2, TableKind.TO_END: float(LAST)}


def evaluate(table: Table, x: np.ndarray) -> Floats:
    """The table's value for every x (float32 or float64, no NaN), as float32 of the same shape."""
    values = np.ascontiguousarray(x).reshape(-1)
    result = np.empty(values.shape, np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, values.size, BLOCK):
            result[start:start + BLOCK] = _block(table, values[start:start + BLOCK].astype(np.float64))
    return result.reshape(x.shape)


def _block(table: Table, values: Doubles) -> Doubles:
    odd = table.symmetry is Symmetry.ODD
    folded = np.abs(values) if odd else values
    result = _inside(table, folded)
    np.copyto(result, table.high_value, where=folded >= table.high_clip)
    np.copyto(result, table.low_value, where=folded <= table.low_clip)
    if odd:
        np.negative(result, out=result, where=values < 0)
    if table.symmetry is Symmetry.POSITIVE:
        np.copyto(result, 0, where=values < 0)
    return result


def _inside(table: Table, x: Doubles) -> Doubles:
    """The value between the clips; meaningless (perhaps NaN) outside."""
    kind = table.kind
    if kind in CENTRES:
        return _with_slopes(table, x, _scaled(x, table.exponent) + CENTRES[kind])
    finite: Doubles = np.where(np.isfinite(x), x, 1.0)
    whole: Doubles = np.trunc(finite)
    if kind is TableKind.FRACTION:
        return finite - whole
    if kind is TableKind.INTEGER:
        return whole
    if kind is TableKind.EXP2:
        whole = np.floor(finite)
        return _scaled(_interpolate(table, _scaled(finite - whole, table.exponent)), _exponents(whole))
    return _by_exponent(table, np.where(finite > 0, finite, 1.0))


def _with_slopes(table: Table, x: Doubles, position: Doubles) -> Doubles:
    """Interpolation where a position lies among the knots, one of two lines elsewhere."""
    result = table.high_slope * x + table.high_intercept
    np.copyto(result, table.low_slope * x + table.low_intercept, where=position < 0)
    among = np.flatnonzero((position >= 0) & (position < LAST))
    if among.size:
        result[among] = _interpolate(table, position[among])
    return result


def _by_exponent(table: Table, x: Doubles) -> Doubles:
    """Kinds that split a positive x into mantissa and exponent."""
    mantissa, exponent = np.frexp(x)  # mantissa in [0.5, 1)
    if table.kind in (TableKind.SQRT, TableKind.RSQRT):
        half = exponent // 2  # x = m * 4^half with m in [0.5, 2)
        value = _interpolate(table, _scaled(x, table.exponent - 2 * half))
        return _scaled(value, half if table.kind is TableKind.SQRT else -half)
    value = _interpolate(table, _scaled(mantissa - 0.5, table.exponent))
    return _scaled(value, -exponent) if table.kind is TableKind.INVERSE else value + exponent.astype(np.float64)


def _interpolate(table: Table, position: Doubles) -> Doubles:
    knots = np.array(table.knots)
    bounded = np.clip(position, 0, LAST)
    index = np.minimum(bounded.astype(np.int64), LAST - 1)
    left = knots[index]
    value: Doubles = left + (bounded - index) * (knots[index + 1] - left)
    return value


def _scaled(values: Doubles, exponents: int | NDArray[np.integer]) -> Doubles:
    """values * 2^exponents."""
    if isinstance(exponents, int) and abs(exponents) < 1000:  # a factor that is exact
        return values * 2.0 ** exponents
    scaled: Doubles = np.ldexp(values, exponents)
    return scaled


def _exponents(whole: Doubles) -> NDArray[np.int64]:
    return np.clip(whole, -2000, 2000).astype(np.int64)
