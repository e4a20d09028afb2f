"""Activation tables: evaluated here and by the simulator they stay within their stated error of the function."""

import math

import numpy as np
import pytest
from support.h13 import FORMAT, table_bytes

from openane.formats import load_program
from openane.ops import functions as special
from openane.ops import saturation, tables

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
    assert FORMAT.table.unpack(table_bytes(fit.table)) == fit.table


def test_fits_keep_the_value_at_zero():
    for function, low, high, odd, _ in SMOOTH.values():
        table = tables.fit(function, low, high, odd=odd).table
        assert tables.evaluate(table, np.zeros(1))[0] == function(np.zeros(1))[0]


APPLES = {  # program of Apple's older compiler: our table of the same function
    "exp": tables.exp2, "exp2": tables.exp2, "inv": tables.inverse, "log": tables.log2, "log2": tables.log2,
    "leakyrelu": lambda: tables.leaky_relu(float(np.float16(0.01))), "relu6": lambda: tables.clip(0.0, 6.0),
    "sign": tables.sign, "softmax": tables.exp2, "sqrt": tables.sqrt,
    "tanh": lambda: saturation.odd_table(np.tanh, 1.0),
}


@pytest.mark.parametrize("name", APPLES)
def test_tables_are_apples(corpus, name):
    stored = bytes(load_program(corpus / f"apple/anec/{name}.anec").constants)[:128]
    assert table_bytes(APPLES[name]()) == stored


def test_the_table_of_sigmoid_is_apples(corpus):
    stored = bytes(load_program(corpus / "apple/hwx/sigmoid.hwx").constants)
    assert table_bytes(saturation.centred_table(special.sigmoid, 0.0, 1.0)) == stored


@pytest.mark.parametrize(("function", "low", "high"), [
    (special.sigmoid, 0.0, 1.0), (lambda x: 2 * special.sigmoid(x / 4) - 3, -3.0, -1.0), (np.arctan, None, None),
    (lambda x: special.erf(x) / 2, -0.5, 0.5)])
def test_saturating_tables_are_close_everywhere(function, low, high):
    low, high = (-math.pi / 2, math.pi / 2) if low is None else (low, high)
    table, x = saturation.centred_table(function, low, high), tables.finite_halves()
    reach = -tables.evaluate(table, x)[0], tables.evaluate(table, x)[-1]
    np.testing.assert_allclose(reach, (-low, high), atol=1e-3)
    if high - low < 3:
        assert np.abs(tables.evaluate(table, x) - function(x)).max() < 1.3e-2


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
