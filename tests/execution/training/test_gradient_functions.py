"""The rules of functions of one tensor on the engine: compiled without host operations, held to float32."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradients import SETTINGS, hold_on_engine
from support.unary import FUNCTIONS

FLAT = ("ceil", "floor", "round", "sign")
WITHOUT = ("trigamma",)
"""Functions whose gradient is refused."""
RANGES = {"log": (0.2, 2), "rsqrt": (0.2, 2), "sqrt": (0.2, 2), "inverse": (0.2, 2), "acos": (-0.8, 0.8),
          "asin": (-0.8, 0.8), "atanh": (-0.8, 0.8), "tan": (-1.2, 1.2),
          "digamma": (0.5, 3), "erfinv": (-0.8, 0.8), "lgamma": (0.5, 3), "log1p": (-0.5, 2),
          "ndtri": (0.2, 0.8)}


def draws(*shape, seed=0, low=-2.0, high=2.0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float16)


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {*FLAT, *WITHOUT}))
def test_functions_of_one_tensor(name):
    low, high = RANGES.get(name, (-2, 2))
    hold_on_engine({"x": draws(3, 40, low=low, high=high)}, lambda b, v: b.add(name, **v, **SETTINGS.get(name, {})))
