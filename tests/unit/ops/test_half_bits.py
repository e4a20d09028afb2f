"""Conversion to and from fp16 by bits, against numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from openane.ops.half_bits import LEAST, from_half, half_and_finite, half_products_into, half_times, to_half
from openane.ops.half_products import CHUNK
from openane.ops.halves import below_zero, halves_finite, largest_magnitude, nonzero
from openane.ops.put_products import put_products

NUMBERS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
STEP = 65521
"""Prime: bits of float32 taken so far apart have every exponent and all kinds of digits."""


def expected(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(np.float16)


def test_bits_of_all_kinds_are_rounded_as_numpy_rounds_them() -> None:
    numbers = np.arange(0, 1 << 32, STEP, dtype=np.uint32).view(np.float32)
    moderate = numbers[np.abs(numbers) < 65520]  # chunks with infinities are left to numpy
    for array in (numbers, moderate):
        assert np.array_equal(to_half(array).view(np.uint16), expected(array).view(np.uint16))


def test_numbers_between_two_of_fp16_are_rounded_to_the_even_one() -> None:
    held = NUMBERS[:0x7BFF].astype(np.float32)
    middle = (held + NUMBERS[1:0x7C00].astype(np.float32)) / 2
    for array in (middle, -middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(np.inf))):
        assert np.array_equal(to_half(array).view(np.uint16), expected(array).view(np.uint16))


@pytest.mark.parametrize("array", [NUMBERS, NUMBERS[np.isfinite(NUMBERS)], np.zeros((0, 3), np.float16),
                                   np.array(2.5, np.float16)], ids=("all", "finite", "none", "one"))
def test_every_half_is_widened_to_what_it_is(array: np.ndarray) -> None:
    wide = from_half(array)
    assert wide.dtype == np.float32
    assert wide.shape == array.shape
    assert np.array_equal(wide.view(np.uint32), array.astype(np.float32).view(np.uint32))


@pytest.mark.parametrize("shape", [(LEAST - 1,), (3, LEAST), (2, CHUNK + 5), ()])
def test_shapes_and_strides_do_not_matter(shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for array in (numbers, numbers.T, numbers.astype(np.float64)):
        assert np.array_equal(to_half(array), array.astype(np.float16))
        assert np.array_equal(from_half(to_half(array)), array.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("last", [1.0, 65519.0, 65520.0, -65520.0, np.inf, np.nan])
@pytest.mark.parametrize("count", [LEAST - 1, 2 * CHUNK])
def test_it_is_said_whether_all_numbers_are_finite(last: float, count: int) -> None:
    numbers = np.append(np.zeros(count - 1), last).astype(np.float32)
    for array in (numbers, numbers.reshape(-1, 1).T, numbers.astype(np.float64)):
        half, finite = half_and_finite(array)
        assert finite == np.isfinite(half).all()
        assert halves_finite(half) == finite


def test_the_operand_stays_as_it_is() -> None:
    numbers = np.random.default_rng(1).standard_normal(2 * LEAST).astype(np.float32)
    before = numbers.copy()
    halves = to_half(numbers)
    assert np.array_equal(numbers, before)
    from_half(halves)
    assert np.array_equal(halves, before.astype(np.float16))


@pytest.mark.parametrize("array", [NUMBERS, NUMBERS[np.isfinite(NUMBERS)], -np.abs(NUMBERS[:9]), NUMBERS[:0],
                                   np.array(-2.5, np.float16), NUMBERS[:5].astype(np.float32)])
def test_magnitudes_and_zeros_are_counted_by_bits(array: np.ndarray) -> None:
    assert nonzero(array) == np.count_nonzero(array)
    assert np.array_equal(largest_magnitude(array), np.abs(array).max(initial=0), equal_nan=True)
    assert below_zero(np.nan_to_num(array)) == (array < 0).any()
    assert not below_zero(-np.zeros_like(array))


@pytest.mark.parametrize("exponent", [-100, -30, -11, -1, 0, 1, 7, 15, 40, 100])
def test_times_a_power_of_two_is_rounded_once(exponent: int) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = (halves.astype(np.float64) * 2.0 ** exponent).astype(np.float16)
    found = half_times(halves, exponent)
    assert np.array_equal(np.isnan(found), np.isnan(halves))
    assert np.array_equal(found[~np.isnan(found)].view(np.uint16), expected[~np.isnan(halves)].view(np.uint16))


@pytest.mark.parametrize("array", [np.float16(3.0), np.arange(6, dtype=np.float16).reshape(2, 3).T])
def test_times_a_power_of_two_keeps_the_shape(array: np.ndarray) -> None:
    found = half_times(np.asarray(array), 2)
    assert found.shape == np.asarray(array).shape
    assert np.array_equal(found, np.asarray(array) * np.float16(4))


@pytest.mark.parametrize("scale", [0, -10, -13, -14, -15, -20])
@pytest.mark.parametrize("along", [0, 1])
def test_products_are_rounded_as_numpy_rounds_them(scale: int, along: int) -> None:
    """Of large and of small numbers, many of them in the middle between two of fp16; by gains that float32 has fewer
    digits for, too, where all are rounded at once."""
    rng = np.random.default_rng(scale + 50)
    numbers = np.ldexp(rng.integers(-2 ** 12, 2 ** 12, (40, 300)), rng.integers(-30, -4, (40, 300))).astype(np.float32)
    numbers[::3] *= rng.standard_normal(300, np.float32)
    shape = (40, 1) if along else (1, 300)
    gains = (rng.integers(1, 4, shape) * rng.choice([-1, 1], shape) * 2.0 ** scale).astype(np.float32)
    made = np.empty(numbers.shape, np.float16)
    half_products_into(made, numbers, gains)
    assert np.array_equal(made.view(np.uint16), expected(numbers * gains).view(np.uint16))
    for several in ([gains], [gains, gains[:, ::-1]]):
        put_products(made.T, numbers.T, [each.T for each in several])
        wanted = numbers * several[0] if len(several) == 1 else numbers * several[0] * several[1]
        assert np.array_equal(made.view(np.uint16), expected(wanted).view(np.uint16))
