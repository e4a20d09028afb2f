"""Whole numbers rounded up: how many parts of a size hold something, and what a size is padded to."""

from __future__ import annotations


def ceil_div(value: int, unit: int) -> int:
    """How many times `unit` it takes to hold `value`."""
    return -(-value // unit)


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `value`."""
    return -(-value // unit) * unit
