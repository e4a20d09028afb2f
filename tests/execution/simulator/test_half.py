"""fp16 conversions against numpy and against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.simulator.arithmetic.half import (
    HalfEncoder,
    count_infinite,
    count_nan,
    decode,
    decoded,
    encode_away,
    encode_even,
    extremes,
    survey,
)

EVERY = np.arange(1 << 16, dtype=np.uint16)


def by_fractions(value: float) -> float:
    """One number rounded to fp16, ties away from zero."""
    exact = abs(Fraction(value))
    if exact >= 65520:
        return float(np.copysign(np.inf, value))
    quantum = Fraction(1, 1 << 24)
    while exact / quantum >= 2048:
        quantum *= 2
    steps = exact / quantum
    rounded = (steps.numerator * 2 + steps.denominator) // (2 * steps.denominator)
    return float(rounded * quantum) * (-1.0 if value < 0 else 1.0)


def test_every_word_decodes() -> None:
    expected = EVERY.view(np.float16).astype(np.float32)
    nan = np.isnan(expected)
    out = np.empty(EVERY.shape, np.float32)
    assert decode(EVERY, out) == (np.count_nonzero(nan), 2)
    few = np.empty(EVERY.shape, np.float32)
    counts = [decode(EVERY[start:start + 512], few[start:start + 512]) for start in range(0, EVERY.size, 512)]
    assert np.sum(counts, axis=0).tolist() == [np.count_nonzero(nan), 2]
    expected[nan] = np.inf
    for found in (out, few):
        np.testing.assert_array_equal(found, expected)
        assert not np.signbit(found[expected == 0]).any()


def test_strided_words_decode() -> None:
    grid = EVERY.reshape(256, 256)[::3, ::-2]
    out = np.empty((grid.shape[0], 300), np.float32)[:, 10:10 + grid.shape[1]]
    decode(grid, out)
    np.testing.assert_array_equal(out, decoded(np.ascontiguousarray(grid)))


def near_ties() -> np.ndarray:
    """Every midpoint of neighbouring fp16 numbers, and the float32 numbers beside it."""
    finite = EVERY[:0x7C00].view(np.float16).astype(np.float64)
    middle = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    values = np.concatenate([middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9)),
                             np.float32([0, 65504, 65519, 65520, 65536, 1e30, 2**-25, 2**-26, 1e-40])])
    return np.concatenate([values, -values])


@pytest.mark.parametrize("to_even", [True, False])
def test_rounding_beside_every_tie(to_even: bool) -> None:
    values = near_ties() if to_even else near_ties()[::11]  # fractions are slow
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16) if to_even else np.array([by_fractions(float(v)) for v in values],
                                                                     np.float16)
    plain = encode_even(values) if to_even else encode_away(values)
    np.testing.assert_array_equal(plain.view(np.float16), expected)
    fast = np.empty(values.shape, np.uint16)
    for few in (0, 1000):
        with np.errstate(all="ignore"):
            found = HalfEncoder(1000, few).encode(values.copy(), fast, to_even=to_even)
        np.testing.assert_array_equal(fast.view(np.float16), expected)
        assert found == (expected.min(), expected.max())


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_random_words_round_like_the_plain_definition(seed: int, to_even: bool) -> None:
    words = np.random.default_rng(seed).integers(0, 2**32, 5000, dtype=np.uint32)
    values = words.view(np.float32)
    expected = encode_even(values) if to_even else encode_away(values)
    out = np.empty(values.shape, np.uint16)
    with np.errstate(all="ignore"):
        HalfEncoder().encode(values.copy(), out, to_even=to_even)
        own = values.copy()
        inside = own.view(np.uint16)[:own.size]
        found = HalfEncoder(1000).encode(own, inside, to_even=to_even)
    np.testing.assert_array_equal(out.view(np.float16), expected.view(np.float16))
    np.testing.assert_array_equal(inside, out)
    assert found == (out.view(np.float16).min(), out.view(np.float16).max())


@settings(max_examples=100)
@given(st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=8))
def test_reductions_of_words(words: list[int]) -> None:
    bits = np.array(words, np.uint16)
    numbers = bits.view(np.float16)
    assert count_nan(bits) == np.count_nonzero(np.isnan(numbers))
    assert count_infinite(bits) == np.count_nonzero(np.isinf(numbers))
    if not np.isnan(numbers).any():
        assert extremes(*survey(bits)) == (float(numbers.min()), float(numbers.max()))
