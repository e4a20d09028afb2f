"""Activation tables: evaluated here and by the simulator they stay within their stated error of the function."""

import math

import numpy as np
import pytest

from openane.engine.table import Table
from openane.ops import functions as special
from openane.ops import tables

SMOOTH = {  # worst absolute error Apple's tables of the same kind have, from runs of Apple-made programs
    "tanh": (np.tanh, (0.0, 0.0), (0.0, 1.0), True, 1.65e-3),
    "sigmoid": (special.sigmoid, (0.0, 0.0), (0.0, 1.0), False, 3.1e-3),
    "gelu": (lambda x: special.gelu(x, "EXACT"), (0.0, 0.0), (1.0, 0.0), False, 6.2e-3),
    "silu": (lambda x: x * special.sigmoid(x), (0.0, 0.0), (1.0, 0.0), False, 1.5e-2),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_fitted_tables_are_as_good_as_apples(name):
    function, low, high, odd, bound = SMOOTH[name]
    fit = tables.fit(function, low, high, odd=odd)
    assert fit.error <= bound
    x = tables.finite_halves()
    assert np.abs(tables.evaluate(fit.table, x) - function(x)).max() == fit.error
    assert Table.from_bytes(fit.table.to_bytes()) == fit.table


def test_fits_keep_the_value_at_zero():
    for function, low, high, odd, _ in SMOOTH.values():
        table = tables.fit(function, low, high, odd=odd).table
        assert tables.evaluate(table, np.zeros(1))[0] == function(np.zeros(1))[0]


def test_piecewise_linear_functions_are_exact():
    x = tables.finite_halves()
    alpha = float(np.float16(0.01))
    exact = {
        "leaky_relu": (tables.leaky_relu(alpha), np.where(x >= 0, x, alpha * x)),
        "clip": (tables.clip(-1.5, 6.0), np.clip(x, -1.5, 6.0)),
        "clip above": (tables.clip(2.0, math.inf), np.maximum(x, 2)),
        "clip below": (tables.clip(-math.inf, -3.0), np.minimum(x, -3)),
        "sign": (tables.step(-1.0, 0.0, 1.0), np.sign(x)),
    }
    for name, (table, expected) in exact.items():
        assert (tables.evaluate(table, x) == expected).all(), name
