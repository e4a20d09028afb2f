"""fp16 words to float32 and back, for one number; other loops are compiled with these inside.

See `arithmetic.half` for the rules. Everything is written without branches, so that compilers make vector instructions
of it: by the processor's own conversions where it has some, on 32-bit integers otherwise, with the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openane.machine_code.described import ByProcessor, ByType, narrowed, part, widened

MAGNITUDE, SIGN, INFINITE = np.int32(0x7FFF), np.int32(0x8000), np.int32(0x7C00)
UP = np.float32(2.0**112)
GAP = np.int32(13)
TOP = np.int32(16)
REBIAS = np.int32((127 - 15) << 23)
LEAST_NORMAL = np.float32(2.0**-14)
SUBNORMAL = np.float32(2.0**24)
BEYOND = np.float32(2048)
HALF = np.float32(0.5)
ZERO = np.float32(0)
ONE = np.int32(1)
TIE = 1 + 2.0**-50
INFINITY = np.float32(2.0**17)  # beyond what rounds to an fp16 number


@part
def _signed_of_half(word):  # type: ignore[no-untyped-def]
    """float32 behind an fp16 word (int32)."""
    return widened(word)


@part
def _signed_of_bits(word):  # type: ignore[no-untyped-def]
    """The same; infinities and NaN become 65536 and more."""
    moved = np.int32(np.int32(np.int32(word & SIGN) << TOP) | np.int32(np.int32(word & MAGNITUDE) << GAP))
    return np.float32(moved.view(np.float32) * UP)


@part
def _away_of_bits(value):  # type: ignore[no-untyped-def]
    """fp16 word (int32) of a float32, ties away from zero, NaN to +0."""
    bits = np.float32(value).view(np.int32)
    size = np.int32(bits & np.int32(0x7FFFFFFF))
    normal = np.int32(np.int32(np.int32(size + np.int32(0x1000)) - REBIAS) >> GAP)
    magnitude = abs(value)
    small = min(magnitude * SUBNORMAL, BEYOND)
    whole = np.int32(small)
    rest = np.float32(small - np.float32(whole))
    word = min(normal if magnitude >= LEAST_NORMAL else np.int32(whole + np.int32(rest >= HALF)), INFINITE)
    signed = np.int32(word | np.int32(np.int32(bits >> TOP) & SIGN))
    return signed if value == value else np.int32(0)


@part
def _even_of_bits(value):  # type: ignore[no-untyped-def]
    """fp16 word (int32) of a float32, ties to even, NaN to +0."""
    bits = np.float32(value).view(np.int32)
    size = np.int32(bits & np.int32(0x7FFFFFFF))
    odd = np.int32(np.int32(size >> GAP) & ONE)
    normal = np.int32(np.int32(np.int32(np.int32(size + np.int32(0xFFF)) + odd) - REBIAS) >> GAP)
    magnitude = abs(value)
    small = min(magnitude * SUBNORMAL, BEYOND)
    whole = np.int32(small)
    rest = np.float32(small - np.float32(whole))
    up = np.int32(rest > HALF) | np.int32(np.int32(rest == HALF) & np.int32(whole & ONE))
    word = min(normal if magnitude >= LEAST_NORMAL else np.int32(whole + np.int32(up)), INFINITE)
    signed = np.int32(word | np.int32(np.int32(bits >> TOP) & SIGN))
    return signed if value == value else np.int32(0)


@part
def _away_of_float(value):  # type: ignore[no-untyped-def]
    """As `_away_of_bits`: a last bit that is set puts a tie beyond it, and changes no other number's side."""
    size = abs(value)
    bounded = np.float32(value if size < INFINITY else np.copysign(INFINITY, value))
    word = narrowed(np.int32(bounded.view(np.int32) | ONE).view(np.float32))
    return word if value == value else np.int32(0)


@part
def _even_of_float(value):  # type: ignore[no-untyped-def]
    """As `_even_of_bits`."""
    return narrowed(np.float32(value)) if value == value else np.int32(0)


signed_number: Any = ByProcessor(_signed_of_half, _signed_of_bits)
away: Any = ByProcessor(_away_of_float, _away_of_bits)
even: Any = ByProcessor(_even_of_float, _even_of_bits)


@part
def number(word):  # type: ignore[no-untyped-def]
    """The same as `signed_number`, zeros without sign."""
    return signed_number(word) + ZERO


@part
def special_number(word):  # type: ignore[no-untyped-def]
    """The same of any word: infinities as they are, NaN as +inf."""
    size = np.int32(word & MAGNITUDE)
    value = number(word)
    if size < INFINITE:
        return value
    return np.float32(-np.inf) if size == INFINITE and value < ZERO else np.float32(np.inf)


@part
def even_double(value):  # type: ignore[no-untyped-def]
    """fp16 word (int32) of a float64, ties to even, NaN to +0: to a float32 that keeps on which side of a tie it is
    (rounded to odd), then to even."""
    near = np.float32(value)
    bits = near.view(np.int32)
    back = np.float64(near)
    bits = np.int32(bits - np.int32(abs(back) > abs(value)))
    bits = np.int32(bits | np.int32(back != value))
    odd = bits.view(np.float32)
    return even(odd) if value == value else np.int32(0)


@part
def away_double(value):  # type: ignore[no-untyped-def]
    """fp16 word (int32) of a float64 as `encode_away` rounds it."""
    return even_double(value * TIE)


to_word: Any = ByType(away, away_double)
