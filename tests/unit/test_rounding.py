"""Whole numbers rounded up."""

from fractions import Fraction
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from openane.rounding import ceil_div, round_up


@given(st.integers(-10 ** 20, 10 ** 20), st.integers(1, 10 ** 6))
def test_rounding_up_is_exact_for_numbers_of_any_size(value: int, unit: int) -> None:
    assert ceil_div(value, unit) == ceil(Fraction(value, unit))
    assert round_up(value, unit) % unit == 0
    assert 0 <= round_up(value, unit) - value < unit
