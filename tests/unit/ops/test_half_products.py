"""Products rounded to fp16 against numpy's conversion."""

from __future__ import annotations

import numpy as np
import pytest

from openane.ops.half_products import CHUNK, half_products

NUMBERS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = NUMBERS[np.isfinite(NUMBERS)]
CLOSE = (1 + 2.0 ** -11) * (1 + 2.0 ** -30)
"""Products with this lie so close to the middle of two fp16 numbers that float32 does not tell on which side."""


def products(numbers: np.ndarray, gains: np.ndarray) -> np.ndarray:
    result = np.empty_like(numbers)
    half_products(numbers, gains, result)
    return result


def expected(numbers: np.ndarray, gains: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return (numbers.astype(np.float64) * gains).astype(np.float16)


@pytest.mark.parametrize("gain", [1, -1, 0, 1 / 3, 100, -7e4, 2.0 ** -10, 2.0 ** -24, 1e-8, 1 + 2.0 ** -11, CLOSE,
                                  2 - CLOSE])
def test_every_number_times_a_gain_is_rounded_once(gain: float) -> None:
    fits = FINITE[np.isfinite(expected(FINITE, np.array(gain)))]
    numbers, gains = fits[None], np.array([[gain]])
    assert np.array_equal(products(numbers, gains).view(np.uint16), expected(numbers, gains).view(np.uint16))


@pytest.mark.parametrize(("shape", "gains"), [((40, 3, 5, 70), (40, 1, 1, 1)), ((700, 33), (1, 33)), ((2, 3), (1, 1)),
                                              ((3, 2 * CHUNK), (3, 1)), ((0, 4), (1, 4))])
def test_gains_repeat_as_numpy_repeats_them(shape: tuple[int, ...], gains: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape))
    numbers, factors = rng.normal(size=shape).astype(np.float16), rng.normal(size=gains)
    assert np.array_equal(products(numbers, factors), expected(numbers, factors))
