"""The vectorised table against the rule written for one number at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.engine.table import KNOTS, Symmetry, Table, TableKind
from openane.simulator.lookup_table import evaluate


def interpolated(table: Table, position: float) -> float:
    position = min(max(position, 0.0), KNOTS - 1.0)
    index = min(int(position), KNOTS - 2)
    return table.knots[index] + (position - index) * (table.knots[index + 1] - table.knots[index])


def inside(table: Table, x: float) -> float:
    kind, step = table.kind, 2.0**table.exponent
    if kind in (TableKind.FROM_START, TableKind.CENTRED, TableKind.TO_END):
        position = x * step + {TableKind.FROM_START: 0, TableKind.CENTRED: 16, TableKind.TO_END: 32}[kind]
        if position < 0:
            return table.low_slope * x + table.low_intercept
        if position >= 32:
            return table.high_slope * x + table.high_intercept
        return interpolated(table, position)
    if kind is TableKind.FRACTION:
        return x - math.trunc(x)
    if kind is TableKind.INTEGER:
        return float(math.trunc(x))
    if kind is TableKind.EXP2:
        whole = math.floor(x)
        return interpolated(table, (x - whole) * step) * 2.0**whole
    if kind in (TableKind.SQRT, TableKind.RSQRT):
        k = 0
        while x * 4.0**-k >= 2:
            k += 1
        while x * 4.0**-k < 0.5:
            k -= 1
        return interpolated(table, x * 4.0**-k * step) * 2.0**(k if kind is TableKind.SQRT else -k)
    mantissa, exponent = math.frexp(x)
    value = interpolated(table, (mantissa - 0.5) * step)
    return value * 2.0**-exponent if kind is TableKind.INVERSE else value + exponent


def one(table: Table, x: float) -> float:
    odd = table.symmetry is Symmetry.ODD
    folded = abs(x) if odd else x
    if table.symmetry is Symmetry.POSITIVE and x < 0:
        return 0.0
    if folded <= table.low_clip:
        value = table.low_value
    elif folded >= table.high_clip:
        value = table.high_value
    else:
        value = inside(table, folded)
    return -value if odd and x < 0 else value


POSITIVE = (TableKind.SQRT, TableKind.RSQRT, TableKind.INVERSE, TableKind.LOG2)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(list(TableKind)), st.sampled_from(list(Symmetry)), st.integers(-3, 6), st.integers(0, 2**32 - 1))
def test_every_kind_and_symmetry(kind: TableKind, symmetry: Symmetry, exponent: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(KNOTS + 6).astype(np.float16).astype(float).tolist()
    low = 0.0 if kind in POSITIVE or symmetry is Symmetry.ODD else -30.0
    table = Table(low, 30.0, numbers[0], numbers[1], tuple(numbers[2:2 + KNOTS]), *numbers[2 + KNOTS:6 + KNOTS],
                  exponent=exponent, kind=kind, symmetry=symmetry)
    x = np.concatenate([rng.standard_normal(50) * 10, 2.0**rng.integers(-20, 5, 20),
                        [0, 0.5, -0.5, 1, 2, 30, -30, np.inf, -np.inf, 65504]]).astype(np.float32)
    np.testing.assert_allclose(evaluate(table, x), [one(table, float(v)) for v in x], rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("slope", [0.01, 0.25])
def test_a_table_that_vanishes_leaves_two_slopes(slope: float) -> None:
    table = Table(-np.inf, np.inf, -np.inf, np.inf, (0.0,) * KNOTS, slope, 0.0, 1.0, 0.0, exponent=64)
    x = np.float32([-8, -0.001, 0, 0.001, 9])
    np.testing.assert_allclose(evaluate(table, x), np.where(x < 0, slope * x, x), rtol=1e-6)
