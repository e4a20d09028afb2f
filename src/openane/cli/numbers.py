"""Types of options for argparse: numbers within bounds, and words of a list. What is none of these is refused with what
is expected."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

Word = TypeVar("Word", bound=StrEnum)

MOST = (1 << 63) - 1
"""The largest whole number an option takes where no other bound is stated."""
LONGEST_CONTEXT = 1 << 24
"""Tokens of the longest text a language model may be asked to be compiled for."""


def whole(low: int, high: int = MOST) -> Callable[[str], int]:
    """A whole number from `low` to `high`."""
    wanted = f"a whole number of {low} or more" if high == MOST else f"a whole number from {low} to {high}"

    def number(text: str) -> int:
        if not text.isdecimal() or len(text) > len(str(high)) or not low <= int(text) <= high:
            raise expected(wanted, text)
        return int(text)
    return number


def real(low: float, high: float = math.inf, *, above: bool = False, below: bool = False) -> Callable[[str], float]:
    """A finite number from `low` to `high`, or `above` the one and `below` the other."""
    first, last = math.nextafter(low, math.inf) if above else low, math.nextafter(high, low) if below else high
    wanted = f"a number {'above' if above else 'from'} {low:g}, {'below' if below else 'to'} {high:g}"
    if high == math.inf:
        wanted = f"a finite number {f'above {low:g}' if above else f'of {low:g} or more'}"

    def number(text: str) -> float:
        found = finite(text)
        if found is None or not first <= found <= last:
            raise expected(wanted, text)
        return found
    return number


def finite(text: str) -> float | None:
    """The finite number that a text is; None of any other."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def one_of(words: type[Word]) -> Callable[[str], Word]:
    """One of the words of an enumeration."""
    known = [str(word) for word in words]

    def word(text: str) -> Word:
        if text not in known:
            raise expected(f"{', '.join(known[:-1])} or {known[-1]}", text)
        return words(text)
    return word


def expected(wanted: str, text: str) -> ArgumentTypeError:
    """The error, which argparse reports, for a text that is something else; of a long one the beginning is quoted."""
    return ArgumentTypeError(f"expected {wanted}, found {text if len(text) <= LONGEST else text[:LONGEST] + '...'!r}")


LONGEST = 60
"""Characters of a text that an error quotes."""
