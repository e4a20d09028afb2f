"""Conversions between fp16 bits and float32, with the engine's rules for special values.

Reading: NaN becomes +inf and a zero loses its sign. Writing: NaN (inf - inf, 0 * inf, the root of a negative number)
becomes +0, magnitudes beyond fp16 become infinite. The multiply-accumulate output rounds ties away from zero, the
planar engine half to even. Subnormals are kept in both directions.

Both directions are integer arithmetic on float32 words: an fp16 word moved to the top of a float32 word stands for
the same number times 2^-112. That is several times faster than numpy's own casts, but for few numbers, where every call
of numpy costs more than what it computes.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint16]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

FRACTION_GAP = 13                      # float32 has 13 fraction bits more than fp16
SIGN_AND_HALF = np.int32(-0x70002000)  # sign, low five exponent bits, ten fraction bits of a float32 word
UP, DOWN = np.float32(2.0**112), np.float32(2.0**-112)
BEYOND = np.float32(2.0**16)           # what an fp16 with exponent field 31 looks like before it is made infinite
LARGEST = np.float32(65504)
INFINITY_BITS = 0x7C00
BLOCK = 1 << 15                        # elements per cache-sized block
FEW = 1 << 11                          # numbers up to which numpy's casts are faster
TIE = 1 + 2.0**-50                     # a double that is a tie, times this, is beyond it; nothing else changes sides
NUMBERS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""The number behind every fp16 word."""


def decode(bits: Bits, out: Floats) -> tuple[int, int]:
    """Writes the numbers behind fp16 `bits` into `out` (same shape, any strides).

    Returns how many were NaN and how many infinite.
    """
    if out.size <= FEW:
        with np.errstate(invalid="ignore"):  # signalling NaN
            np.add(bits.view(np.float16), np.float32(0), out=out)
        calm = not out.size or (math.isfinite(np.maximum.reduce(out, axis=None))
                                and math.isfinite(np.minimum.reduce(out, axis=None)))
        return (0, 0) if calm else _decode_special(bits, out)
    words = out.view(np.int32)
    np.copyto(words, bits.view(np.int16))
    np.left_shift(words, FRACTION_GAP, out=words)
    np.bitwise_and(words, SIGN_AND_HALF, out=words)
    np.multiply(out, UP, out=out)
    np.add(out, np.float32(0), out=out)
    if np.maximum.reduce(out, axis=None) >= BEYOND or np.minimum.reduce(out, axis=None) <= -BEYOND:
        return _decode_special(bits, out)
    return 0, 0


def decoded(bits: Bits) -> Floats:
    """A new float32 array of the numbers behind fp16 `bits`."""
    out = np.empty(bits.shape, np.float32)
    decode(bits, out)
    return out


def _decode_special(bits: Bits, out: Floats) -> tuple[int, int]:
    magnitude = bits & np.uint16(0x7FFF)
    nan = magnitude > INFINITY_BITS
    infinite = magnitude == INFINITY_BITS
    out[infinite] *= np.float32(np.inf)
    out[nan] = np.inf
    return int(np.count_nonzero(nan)), int(np.count_nonzero(infinite))


def survey(bits: Bits) -> tuple[int, int, int]:
    """Smallest and largest of fp16 words (at least one) as unsigned numbers, and the largest as a signed one: what
    `special` and `extremes` are read from, for three integer reductions.

    fp16 words order like integers within a sign, so the largest unsigned word is the lowest negative number.
    """
    return (int(np.minimum.reduce(bits, axis=None)), int(np.maximum.reduce(bits, axis=None)),
            int(np.maximum.reduce(bits.view(np.int16), axis=None)))


def special(high: int, signed_high: int) -> bool:
    """Whether there is a NaN or an infinity among words with this `survey`."""
    return signed_high >= INFINITY_BITS or high >= INFINITY_BITS + 0x8000


def has_special(bits: Bits) -> bool:
    """Whether there is a NaN or an infinity among fp16 words; two integer reductions."""
    return bits.size > 0 and special(int(np.maximum.reduce(bits, axis=None)),
                                     int(np.maximum.reduce(bits.view(np.int16), axis=None)))


def count_nan(bits: Bits) -> int:
    """How many fp16 words are NaN."""
    return int(np.count_nonzero(is_nan(bits))) if has_special(bits) else 0


def is_nan(bits: Bits) -> NDArray[np.bool_]:
    """Which fp16 words are NaN."""
    return (bits & np.uint16(0x7FFF)) > INFINITY_BITS


def count_infinite(bits: Bits) -> int:
    """How many fp16 words are plus or minus infinity."""
    return int(np.count_nonzero((bits & np.uint16(0x7FFF)) == INFINITY_BITS)) if has_special(bits) else 0


def extremes(low: int, high: int, signed_high: int) -> tuple[float, float]:
    """Smallest and largest number among fp16 words without NaN, from their `survey`."""
    return (float(NUMBERS[high if high >= 0x8000 else low]),
            float(NUMBERS[signed_high if signed_high >= 0 else low]))


class HalfEncoder:
    """float32 to fp16 bits, block by block, in scratch memory of its own. Numbers that become infinite are no error:
    call it with numpy's warnings off."""

    def __init__(self, block: int = BLOCK, few: int = FEW) -> None:
        """`few`: numbers up to which numpy's casts are taken."""
        self._block, self._few = block, few
        self._scaled = np.empty(block, np.float32)
        self._words = np.empty(block, np.uint32)

    def encode(self, values: Floats, out: Bits, *, to_even: bool) -> tuple[float, float]:
        """Rounds `values` into `out` (both contiguous, same shape), ties to even or away from zero. Returns the
        smallest and the largest number that is in `out` now.

        `values` may be changed: NaN becomes 0 and magnitudes beyond fp16 are clipped to 2^16. `out` may be the first
        half of their own memory: what is written lies behind what is read.
        """
        source, target = values.reshape(-1), out.reshape(-1)
        if source.size <= self._block:
            low, high = self._encode_block(source, target, to_even)
        else:
            parts = [slice(start, start + self._block) for start in range(0, source.size, self._block)]
            lows, highs = zip(*(self._encode_block(source[part], target[part], to_even) for part in parts),
                              strict=True)
            low, high = min(lows), max(highs)
        return rounded(low, to_even), rounded(high, to_even)

    def _encode_block(self, values: Floats, out: Bits, to_even: bool) -> tuple[np.float32, np.float32]:
        high, low = np.maximum.reduce(values), np.minimum.reduce(values)
        if not (high <= LARGEST and low >= -LARGEST):  # true for NaN as well
            values[np.isnan(values)] = 0
            np.clip(values, -BEYOND, BEYOND, out=values)
            high, low = np.maximum.reduce(values), np.minimum.reduce(values)
        if values.size <= self._few:
            halves = values.astype(np.float16) if to_even else np.multiply(values, TIE, dtype=np.float64)
            out.view(np.float16)[...] = halves
        else:
            self._encode_many(values, out, to_even, low)
        return low, high

    def _encode_many(self, values: Floats, out: Bits, to_even: bool, low: np.float32) -> None:
        scaled, words = self._scaled[:values.size], self._words[:values.size]
        bits = scaled.view(np.uint32)
        np.multiply(values, DOWN, out=scaled)
        np.bitwise_and(bits, np.uint32(0x7F801FFF), out=words)
        doubtful = () if low >= 2.0**-14 else np.flatnonzero(words == 0x1000)
        if to_even:
            np.right_shift(bits, FRACTION_GAP, out=words)
            np.bitwise_and(words, np.uint32(1), out=words)
            np.add(words, np.uint32(0xFFF), out=words)
            np.add(words, bits, out=words)
        else:
            np.add(bits, np.uint32(0x1000), out=words)
        np.right_shift(words, FRACTION_GAP, out=words)
        np.right_shift(bits, 16, out=bits)
        np.bitwise_and(bits, np.uint32(0x8000), out=bits)
        np.bitwise_or(words, bits, out=words)
        exact = values[doubtful].astype(np.float64) if len(doubtful) else None
        np.copyto(out, words, casting="unsafe")  # of the sign at its old place nothing is left in 16 bits
        if exact is not None:  # subnormal results: the scaling itself rounded, onto a tie
            out[doubtful] = encode_even(exact) if to_even else encode_away(exact)


def encode_even(values: NDArray[np.floating]) -> Bits:
    """fp16 bits of `values`, half to even, NaN to +0. The plain definition; `HalfEncoder` is the fast form."""
    with np.errstate(all="ignore"):
        rounded = np.where(np.isnan(values), 0, values).astype(np.float16)
    return rounded.view(np.uint16)


def encode_away(values: NDArray[np.floating]) -> Bits:
    """fp16 bits of `values`, ties away from zero, NaN to +0; 65520 and more is infinite.

    Exact for numbers of up to 48 significant bits: one part in 2^50 more than a tie rounds away from it.
    """
    with np.errstate(all="ignore"):
        nudged = np.asarray(values, np.float64) * TIE
        rounded: NDArray[np.float16] = np.where(np.isnan(nudged), 0, nudged).astype(np.float16)
    return rounded.view(np.uint16)


def rounded(value: float | np.floating, to_even: bool) -> float:
    """One number, which is no NaN, as it is after `encode_even` or `encode_away`."""
    return float(np.float16(value if to_even else float(value) * TIE))
