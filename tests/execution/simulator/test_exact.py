"""The vectorised multiply-accumulate rule against integers in plain Python, and fast arithmetic beside it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.errors import SimulationError
from openane.simulator.arithmetic import EXACT_PRODUCTS, Accumulator, Mode, exact, matrix_product, saturate
from openane.simulator.arithmetic.half import decoded

Pair = tuple[int, int]


def parts(bits: int) -> tuple[int, int, int]:
    """Sign, significand (11 bits, hidden one included) and exponent as the rule counts it."""
    field, fraction = bits >> 10 & 31, bits & 1023
    return (-1 if bits & 0x8000 else 1), fraction + (1024 if field else 0), (field - 15 if field else -14)


def quanta(a: int, b: int) -> int:
    """One product in units of 2^-16."""
    (sign_a, significand_a, exponent_a), (sign_b, significand_b, exponent_b) = parts(a), parts(b)
    total = exponent_a + exponent_b
    if total < -16:
        return 0
    value = Fraction(significand_a * significand_b) * Fraction(2) ** (total - 20 + 16)
    return sign_a * sign_b * ((value.numerator * 2 + value.denominator) // (2 * value.denominator))


def finite_words(rng: np.random.Generator, shape: tuple[int, ...], spread: int) -> np.ndarray:
    """fp16 words with exponents drawn evenly from the `spread` lowest, zeros and subnormals among them."""
    fields = rng.integers(0, spread, shape)
    return ((rng.integers(0, 2, shape) << 15) | (fields << 10) | rng.integers(0, 1024, shape)).astype(np.uint16)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 31), st.integers(1, 5), st.integers(1, 5), st.integers(1, 9))
def test_sums_are_those_of_integers(seed: int, spread: int, rows: int, columns: int, terms: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = finite_words(rng, (terms, rows), spread), finite_words(rng, (terms, columns), spread)
    expected = [[sum(quanta(int(left[k, i]), int(right[k, j])) for k in range(terms)) * 2.0**-16
                 for j in range(columns)] for i in range(rows)]
    np.testing.assert_array_equal(exact.outer_sums(decoded(left), decoded(right)), expected)
    both = min(rows, columns)
    lanes = exact.channel_sums(decoded(left[:, :both]), decoded(right[:, :both, None]))
    np.testing.assert_array_equal(lanes[:, 0], np.diag(np.array(expected)[:both, :both]))


def test_ties_and_the_cut() -> None:
    def product(a: float, b: float) -> float:
        return float(exact.outer_sums(np.float32([[a]]), np.float32([[b]]))[0, 0] * 2**16)

    assert product(2.0**-8, 1.5 * 2.0**-8) == 2      # 1.5 quanta, exponent sum -16: a tie, away from zero
    assert product(-(2.0**-8), 1.5 * 2.0**-8) == -2
    assert product(2.0**-8, 1.25 * 2.0**-8) == 1
    assert product(1.5 * 2.0**-8, 1.5 * 2.0**-9) == 0  # 1.125 quanta, but the exponent sum is -17
    assert product(60000, 60000) == 3.6e9 * 2**16


def test_many_terms_do_not_lose_quanta() -> None:
    terms = 20000
    left, right = np.ones((terms, 1), np.float32), np.full((terms, 1), 1.5, np.float32)
    assert exact.outer_sums(left, right)[0, 0] == 30000
    left[::2] = 2.0**-16
    assert exact.outer_sums(left, right)[0, 0] == 15000 + terms / 2 * 2.0**-15


def test_the_output_conversion() -> None:
    x = np.full((1, 16384), 1, np.float16)
    assert matrix_product(x, np.ones((1, 16384), np.float16)) == 16384
    assert matrix_product(x[:, :2049], np.ones((1, 2049), np.float16)) == 2050
    assert matrix_product(np.float16([[32752]]), np.float16([[1]])) == 32752
    assert matrix_product(np.float16([[16384, -16384]]), np.float16([[2, 0], [0, 2]])).tolist() == [[np.inf, -np.inf]]
    assert matrix_product(np.float16([[2**-14]]), np.float16([[0.25]])).view(np.uint16) == 256


def test_infinite_operands() -> None:
    inf = np.inf
    weights = np.float32([[1, -1, 0]]).T
    columns = np.float32([[inf, 1, inf, 0, inf], [0, inf, inf, 2, -inf], [5, 5, 5, inf, 0]])
    for mode in (Mode.EXACT, Mode.FAST):
        sums = Accumulator(mode).outer(weights, columns)
        np.testing.assert_array_equal(sums, [[inf, -inf, 0, -2, inf]])


def test_fast_agrees_to_its_quanta() -> None:
    rng = np.random.default_rng(1)
    left, right = (decoded(rng.standard_normal((300, 20)).astype(np.float16).view(np.uint16)) for _ in range(2))
    fast, precise = Accumulator(Mode.FAST).outer(left, right), Accumulator(Mode.EXACT).outer(left, right)
    assert np.abs(fast - precise).max() <= 300 * 2.0**-17 + 1e-4
    saturate(fast)
    high = np.float32([32767.9, 32768, -40000])
    saturate(high)
    assert high.tolist() == [float(np.float32(32767.9)), np.inf, -np.inf]


def test_modes() -> None:
    assert Mode.AUTO.choose(EXACT_PRODUCTS) is Mode.EXACT
    assert Mode.AUTO.choose(EXACT_PRODUCTS + 1) is Mode.FAST
    with pytest.raises(SimulationError, match="exact, fast, auto"):
        Mode.of("double")
