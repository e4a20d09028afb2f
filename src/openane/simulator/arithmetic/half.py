"""Conversions between fp16 bits and float32, with the engine's rules for special values.

Reading: NaN becomes +inf and a zero loses its sign. Writing: NaN (inf - inf, 0 * inf, the root of a negative number)
becomes +0, magnitudes beyond fp16 become infinite. The multiply-accumulate output rounds ties away from zero, the
planar engine half to even. Subnormals are kept in both directions.

Both directions are integer arithmetic on float32 words: an fp16 word moved to the top of a float32 word stands for
the same number times 2^-112. That is several times faster than numpy's own casts.
"""

from __future__ import annotations

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


def decode(bits: Bits, out: Floats) -> tuple[int, int]:
    """Writes the numbers behind fp16 `bits` into `out` (same shape, any strides).

    Returns how many were NaN and how many infinite.
    """
    words = out.view(np.int32)
    np.copyto(words, bits.view(np.int16))
    np.left_shift(words, FRACTION_GAP, out=words)
    np.bitwise_and(words, SIGN_AND_HALF, out=words)
    np.multiply(out, UP, out=out)
    np.add(out, np.float32(0), out=out)
    if out.size and (out.max() >= BEYOND or out.min() <= -BEYOND):
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


def count_nan(bits: Bits) -> int:
    """How many fp16 words are NaN; two integer reductions when there are none."""
    if bits.size == 0 or (bits.view(np.int16).max() <= INFINITY_BITS and bits.max() <= INFINITY_BITS + 0x8000):
        return 0
    return int(np.count_nonzero(is_nan(bits)))


def is_nan(bits: Bits) -> NDArray[np.bool_]:
    """Which fp16 words are NaN."""
    return (bits & np.uint16(0x7FFF)) > INFINITY_BITS


def count_infinite(bits: Bits) -> int:
    """How many fp16 words are plus or minus infinity (there is no NaN among them)."""
    if bits.size == 0 or (bits.view(np.int16).max() < INFINITY_BITS and bits.max() < INFINITY_BITS + 0x8000):
        return 0
    return int(np.count_nonzero((bits & np.uint16(0x7FFF)) == INFINITY_BITS))


def extremes(bits: Bits) -> tuple[float, float]:
    """Smallest and largest number among fp16 words without NaN, from integer reductions alone.

    fp16 words order like integers within a sign, so the largest unsigned word is the lowest negative number.
    """
    unsigned_low, unsigned_high, signed_high = bits.min(), bits.max(), bits.view(np.int16).max()
    low = unsigned_high if unsigned_high >= 0x8000 else unsigned_low
    high = signed_high if signed_high >= 0 else unsigned_low
    pair = np.array([int(low) & 0xFFFF, int(high) & 0xFFFF], np.uint16).view(np.float16)
    return float(pair[0]), float(pair[1])


class Encoder:
    """float32 to fp16 bits, block by block, in scratch memory of its own."""

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block
        self._scaled = np.empty(block, np.float32)
        self._words = np.empty(block, np.uint32)

    def encode(self, values: Floats, out: Bits, *, to_even: bool) -> None:
        """Rounds `values` into `out` (both contiguous, same shape), ties to even or away from zero.

        `values` may be changed: NaN becomes 0 and magnitudes beyond fp16 are clipped to 2^16. `out` may be the first
        half of their own memory: what is written lies behind what is read.
        """
        source, target = values.reshape(-1), out.reshape(-1)
        for start in range(0, source.size, self._block):
            part = slice(start, start + self._block)
            self._encode_block(source[part], target[part], to_even)

    def _encode_block(self, values: Floats, out: Bits, to_even: bool) -> None:
        high, low = values.max(), values.min()
        if not (high <= LARGEST and low >= -LARGEST):  # true for NaN as well
            values[np.isnan(values)] = 0
            np.clip(values, -BEYOND, BEYOND, out=values)
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
        np.bitwise_and(words, np.uint32(0x7FFF), out=words)
        np.right_shift(bits, 16, out=bits)
        np.bitwise_and(bits, np.uint32(0x8000), out=bits)
        np.bitwise_or(words, bits, out=words)
        exact = values[doubtful].astype(np.float64) if len(doubtful) else None
        np.copyto(out, words, casting="unsafe")
        if exact is not None:  # subnormal results: the scaling itself rounded, onto a tie
            out[doubtful] = encode_even(exact) if to_even else encode_away(exact)


def encode_even(values: NDArray[np.floating]) -> Bits:
    """fp16 bits of `values`, half to even, NaN to +0. The plain definition; `Encoder` is the fast form."""
    with np.errstate(all="ignore"):
        rounded = np.where(np.isnan(values), 0, values).astype(np.float16)
    return rounded.view(np.uint16)


def encode_away(values: NDArray[np.floating]) -> Bits:
    """fp16 bits of `values`, ties away from zero, NaN to +0; 65520 and more is infinite.

    Exact for numbers of up to 48 significant bits: one part in 2^50 more than a tie rounds away from it.
    """
    with np.errstate(all="ignore"):
        nudged = np.asarray(values, np.float64) * (1 + 2.0**-50)
        rounded: NDArray[np.float16] = np.where(np.isnan(nudged), 0, nudged).astype(np.float16)
    return rounded.view(np.uint16)
