"""Multiplies a weight by the gains that were folded into it, and rounds to fp16 after each of them.

The results are bit for bit those of the pass `fold_affine`, which rounds as often. It is done here in one pass over the
weight, because numpy's own conversion to and from fp16 takes one number at a time. Instead, numbers stay in float32 or
float64 and are rounded by adding a large number and taking it away again: the sum has no room for the digits that fp16
does not have, so that they are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openane.record_classes import dataclass

CHUNK = 1 << 16
"""How many numbers are worked on at a time, so that they stay in the processor's cache."""
DIGITS = 11
"""Binary digits of fp16's significand, the first one counted."""
LEAST = float(np.finfo(np.float16).smallest_normal)
"""The smallest normal fp16. Smaller numbers all have the same spacing, so that they are rounded as this one is."""


@dataclass(frozen=True, slots=True)
class FloatBits:
    """A float type seen as integers of the same size. `exponent` is the mask of the exponent bits; `more` is added to a
    power of two, as bits, to get the number whose addition rounds numbers of that power's size."""

    bits: type[np.integer]
    exponent: int
    more: int

    @staticmethod
    def of(kind: type[np.floating], bits: type[np.integer]) -> FloatBits:
        """The numbers of a float type."""
        info = np.finfo(kind)
        unit = 2 ** info.nmant
        mask = (2 ** info.iexp - 1) * unit
        return FloatBits(bits, mask, (info.nmant + 1 - DIGITS) * unit + unit // 2)


KINDS = {np.dtype(np.float32): FloatBits.of(np.float32, np.int32),
         np.dtype(np.float64): FloatBits.of(np.float64, np.int64)}


def round_to_half(numbers: np.ndarray, place: np.ndarray, work: np.ndarray) -> None:
    """Puts the numbers (float32 or float64) into `place`, each rounded to the nearest number that fp16 holds, ties to
    even, as a conversion rounds. From 65520 on, where a conversion gives infinity, the result is 65536 or more. `place`
    and `work` have the shape and type of `numbers`; none of the three overlap."""
    kind = KINDS[numbers.dtype]
    bits = work.view(kind.bits)
    np.bitwise_and(numbers.view(kind.bits), kind.bits(kind.exponent), out=bits)
    np.maximum(work, LEAST, out=work, dtype=work.dtype)
    np.add(bits, kind.bits(kind.more), out=bits)
    np.add(numbers, work, out=place)
    np.subtract(place, work, out=place)
    if not place.all():
        np.copysign(place, numbers, out=place)


def scaled(weight: np.ndarray, gains: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """The weight [outer, channels, inner] as fp16 after each of `gains` [channels], of which there is one at least, and
    its largest magnitude before: NaN when a number is NaN, 65520 or more when one becomes infinite."""
    result, largest = np.empty(weight.shape, np.float16), 0.0
    outer, channels, inner = weight.shape
    size = max(1, min(channels, CHUNK // inner))
    room = np.empty((3, min(outer, max(1, CHUNK // (size * inner))), size, inner))
    for start in range(0, channels, size):
        part = slice(start, start + size)
        columns = [gain[part, None] for gain in gains]
        for piece in _pieces(outer, room.shape[1]):
            numbers = _rounded(np.ascontiguousarray(weight[piece, part]))
            largest = float(np.maximum(largest, np.maximum(numbers.max(), -numbers.min())))
            wide = room[:, :len(numbers), :numbers.shape[1]]
            if not wide.flags.c_contiguous:
                wide = np.empty((3, *numbers.shape))
            np.copyto(result[piece, part], _scaled(numbers, columns, wide), casting="unsafe")
    return result, largest


def _scaled(numbers: np.ndarray, gains: Sequence[np.ndarray], wide: np.ndarray) -> np.ndarray:
    """Numbers that fp16 holds, times one gain after the other, the last product not rounded; `wide` [3, ...] is where
    that is done."""
    product: np.ndarray
    product, rounded, work = wide
    np.copyto(product, numbers)
    for position, gain in enumerate(gains):
        if position:
            round_to_half(product, rounded, work)
            product, rounded = rounded, product
        np.multiply(product, gain, out=product)
    return product


def _pieces(extent: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, extent, size))


def _rounded(weight: np.ndarray) -> np.ndarray:
    """What fp16 holds of part of a weight, as float32 or float64."""
    if weight.dtype == np.float16:
        return weight.astype(np.float32)
    numbers = weight if weight.dtype in KINDS else weight.astype(np.float64)
    place = np.empty_like(numbers)
    round_to_half(numbers, place, np.empty_like(numbers))
    return place
