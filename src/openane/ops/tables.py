"""Activation tables: 33 knots for any scalar function, and how far the engine's interpolation is from it.

A table covers 32 intervals of width 2^-n that start at 0, are centred on 0 or end at 0; straight lines continue it on
both sides. `fit` tries every placement and keeps the one with the smallest worst error over all fp16 inputs.
Functions that scale (exp2, log2, roots, inverse) have kinds of their own that work on the mantissa.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.record_classes import dataclass

Line = tuple[float, float]
"""Slope and intercept."""
Function = Callable[[np.ndarray], np.ndarray]
INFINITY = math.inf
STEEP = 64
"""Knot exponent at which the 32 intervals shrink to the single input 0."""
_EXPONENTS = range(-4, 8)
_ORIGIN = {TableKind.FROM_START: 0, TableKind.CENTRED: 16, TableKind.TO_END: 32}


@dataclass(frozen=True, slots=True)
class Fit:
    """A table and its worst absolute error over every finite fp16 input, result rounding apart."""

    table: Table
    error: float


def fit(function: Function, low: Line, high: Line, *, odd: bool = False,
        within: tuple[float, float] = (-INFINITY, INFINITY)) -> Fit:
    """The best table of `function` (vectorised, float64) between the lines it approaches at -inf and +inf.

    `odd` functions are tabulated for x >= 0 and mirrored; `low` is then not used. f(0) stays exact. Errors count
    only `within` these bounds.
    """
    x = finite_halves()
    x = x[(x >= within[0]) & (x <= within[1])]
    with np.errstate(over="ignore", invalid="ignore"):
        expected = function(x)
    kinds = (TableKind.FROM_START,) if odd else (TableKind.CENTRED, TableKind.TO_END, TableKind.FROM_START)
    best: Fit | None = None
    for kind in kinds:
        for exponent in _EXPONENTS:
            for knots in (_sampled_knots(function, kind, exponent), _fitted_knots(function, kind, exponent)):
                table = _assemble(knots, low, high, kind, exponent, odd)
                error = float(np.abs(evaluate(table, x) - expected).max())
                if best is None or error < best.error:
                    best = Fit(table, error)
    assert best is not None
    return best


def two_slopes(low: Line, at_zero: float, high: Line, *, low_clip: float = -INFINITY, high_clip: float = INFINITY,
               low_value: float | None = None, high_value: float | None = None) -> Table:
    """A function of two lines that meet or jump at 0, constant beyond the clips (by default what the lines give
    there). Exact up to fp16 rounding. Every knot holds the value at 0 (the only x that meets one), as in the recorded
    table of a maximum with a constant."""
    below = _line(low, low_clip) if low_value is None else low_value
    above = _line(high, high_clip) if high_value is None else high_value
    knot = below if low_clip >= 0 else above if high_clip <= 0 else at_zero
    return Table(low_clip, high_clip, below, above, (knot,) * KNOTS, *low, *high, exponent=STEEP,
                 kind=TableKind.CENTRED)


def clip(low: float, high: float) -> Table:
    """min(max(x, low), high); the bounds may be infinite."""
    line = (1.0, 0.0)
    return two_slopes(line, 0.0, line, low_clip=low, high_clip=high) if low < high else step(low, low, low)


def leaky_relu(alpha: float) -> Table:
    """x where x >= 0, else alpha * x."""
    return two_slopes((alpha, 0.0), 0.0, (1.0, 0.0))


def step(below: float, at_zero: float, above: float) -> Table:
    """Three constants by the sign of x."""
    return two_slopes((0.0, below), at_zero, (0.0, above))


def sign() -> Table:
    """-1, 0 or 1: the odd function that is 1 from the first number above 0 on, as in Apple's programs."""
    return Table(0.0, 1.0, 0.0, 1.0, (0.0,) * KNOTS, high_intercept=1.0, exponent=STEEP, symmetry=Symmetry.ODD)


def truncate() -> Table:
    """The integer part, towards zero."""
    return Table(-INFINITY, INFINITY, -INFINITY, INFINITY, (0.0,) * KNOTS, kind=TableKind.INTEGER)


def exp2() -> Table:
    """2^x; 0 below -25, infinity from 16."""
    return Table(-25.0, 16.0, 0.0, INFINITY, rounded(2.0 ** (np.arange(KNOTS) / 32)), exponent=5, kind=TableKind.EXP2)


def log2() -> Table:
    """Base-2 logarithm; -infinity for x <= 0, and 0 at infinity, as in Apple's programs."""
    return Table(0.0, INFINITY, -INFINITY, 0.0, rounded(np.log2(0.5 + np.arange(KNOTS) / 64)), exponent=6,
                 kind=TableKind.LOG2, symmetry=Symmetry.POSITIVE)


def inverse() -> Table:
    """1/x, infinity at 0."""
    return Table(0.0, INFINITY, INFINITY, 0.0, rounded(1 / (0.5 + np.arange(KNOTS) / 64)), exponent=6,
                 kind=TableKind.INVERSE, symmetry=Symmetry.ODD)


def sqrt() -> Table:
    """Square root; 0 for x <= 0."""
    knots = np.sqrt(np.arange(KNOTS) / 16)
    knots[:8] = 0.0
    return Table(0.0, INFINITY, 0.0, INFINITY, rounded(knots), exponent=4, kind=TableKind.SQRT,
                 symmetry=Symmetry.POSITIVE)


def rsqrt() -> Table:
    """1/sqrt(x); infinity for x <= 0."""
    knots = np.zeros(KNOTS)
    knots[8:] = 1 / np.sqrt(np.arange(8, KNOTS) / 16)
    return Table(0.0, INFINITY, INFINITY, 0.0, rounded(knots), exponent=4, kind=TableKind.RSQRT,
                 symmetry=Symmetry.POSITIVE)


def evaluate(table: Table, x: np.ndarray) -> np.ndarray:
    """What the engine computes before rounding, for the kinds with evenly spaced knots. x and result float64."""
    inner = np.abs(x) if table.symmetry is Symmetry.ODD else x
    with np.errstate(over="ignore", invalid="ignore"):
        position = inner * 2.0 ** table.exponent + _ORIGIN[table.kind]
        cell = np.clip(np.floor(np.clip(position, 0, 31)), 0, 31).astype(int)
        knots = np.asarray(table.knots)
        result = knots[cell] + (position - cell) * (knots[cell + 1] - knots[cell])
        result = np.where(position < 0, table.low_slope * inner + table.low_intercept, result)
        result = np.where(position >= 32, table.high_slope * inner + table.high_intercept, result)
    result = np.where(inner >= table.high_clip, table.high_value, result)
    result = np.where(inner <= table.low_clip, table.low_value, result)
    return np.where(x < 0, -result, result) if table.symmetry is Symmetry.ODD else result


@cache
def finite_halves() -> np.ndarray:
    """Every finite fp16 value as float64, in rising order."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    ordered = np.sort(values[np.isfinite(values)])
    ordered.setflags(write=False)
    return ordered


def _assemble(knots: np.ndarray, low: Line, high: Line, kind: TableKind, exponent: int, odd: bool) -> Table:
    low_clip, low_value = (-1.0, 0.0) if odd else (-INFINITY, _line(low, -INFINITY))
    return Table(low_clip, INFINITY, low_value, _line(high, INFINITY), rounded(knots), *((0.0, 0.0) if odd else low),
                 *high, exponent=exponent, kind=kind, symmetry=Symmetry.ODD if odd else Symmetry.NONE)


def _positions(kind: TableKind, exponent: int) -> np.ndarray:
    return (np.arange(KNOTS) - _ORIGIN[kind]) * 2.0 ** -exponent


def _sampled_knots(function: Function, kind: TableKind, exponent: int) -> np.ndarray:
    """The function at the knots."""
    with np.errstate(over="ignore", invalid="ignore"):
        return function(_positions(kind, exponent))


def _fitted_knots(function: Function, kind: TableKind, exponent: int, samples: int = 16) -> np.ndarray:
    """Least-squares knots of the interpolation, f(0) and the two ends kept."""
    positions = _positions(kind, exponent)
    fraction = (np.arange(32 * samples) + 0.5) / samples
    cell = fraction.astype(int)
    basis = np.zeros((len(fraction), KNOTS))
    rows = np.arange(len(fraction))
    basis[rows, cell], basis[rows, cell + 1] = 1 - (fraction - cell), fraction - cell
    fixed = sorted({0, _ORIGIN[kind], KNOTS - 1})
    free = [k for k in range(KNOTS) if k not in fixed]
    knots = _sampled_knots(function, kind, exponent)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = function(positions[0] + fraction * 2.0 ** -exponent) - basis[:, fixed] @ knots[fixed]
    if not np.isfinite(wanted).all():
        return knots
    knots[free] = np.linalg.lstsq(basis[:, free], wanted, rcond=None)[0]
    return knots


def rounded(values: np.ndarray) -> tuple[float, ...]:
    """The values in fp16, the largest finite one where they leave its range."""
    with np.errstate(over="ignore"):
        halves = np.asarray(values, np.float64).astype(np.float16)
    return tuple(float(v) for v in np.clip(halves, -65504, 65504))


def _line(line: Line, x: float) -> float:
    slope, intercept = line
    return intercept if slope == 0 else slope * x + intercept
