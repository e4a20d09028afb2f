"""The multiply-accumulate rule of the neural engine, bit by bit.

Every product of two fp16 numbers is formed exactly. It contributes nothing when the sum of the two exponents (a
subnormal counts as -14, neither flushed nor normalised) is below -16; otherwise it is rounded to a multiple of 2^-16,
ties away from zero. The multiples are added exactly, and the sum is converted to fp16 once, ties away from zero.
Evidence: reproduces 32 published error norms of matrix products and convolutions on seven chips to 1e-13.

How it is made fast. Scaled by 2^8 each, two fp16 numbers have a float32 product that is exact and counts quanta of
2^-16. Moving one factor up by one unit in its last place moves the product by less than the distance of any product
from a tie it does not sit on, so that rounding to the nearest even integer then rounds ties away; this holds while
products stay below 2^21 quanta. Sums stay in float32 while their bound is below 2^24 quanta, and float64 otherwise.
"""

from __future__ import annotations

import numpy as np

from openane.chips import arithmetic
from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import Bits, Doubles, Floats, decoded, encode_away

QUANTUM = arithmetic.QUANTUM       # what a product is a multiple of
SATURATION = arithmetic.SUM_LIMIT  # a sum of this and more is infinite
CUT = -16                 # least exponent sum that counts
NUDGE_LIMIT = 2.0**21     # quanta: largest product that may be rounded with the nudge
FLOAT_LIMIT = 2.0**24     # quanta: largest sum float32 holds exactly
TILE = 1 << 15            # products formed at a time
WIDE = 1 << 11            # of these, how many along the longer operand
DEPTH = 128               # terms prepared at a time
LARGEST_PRODUCT = 65504.0**2 * 2**16  # quanta
DOUBLE_LIMIT, SUM_LIMIT = 2.0**53, 2.0**62  # quanta: sums float64 holds exactly; sums 64-bit integers hold


@dataclass(slots=True)
class Factor:
    """One operand prepared for a run of terms: [term, ...] arrays and per-term bounds."""

    scaled: Floats                # values * 2^8
    exponents: np.ndarray         # int32, the engine's exponent
    largest: Doubles              # per term, of |scaled|
    least: np.ndarray             # per term, lowest exponent of a nonzero value


def _prepare(values: Floats) -> Factor:
    """`values` is [terms, ...], finite fp16 numbers in float32."""
    scaled = np.multiply(values, np.float32(256), order="C")
    exponents = engine_exponents(scaled)
    flat = scaled.reshape(len(scaled), -1)
    least = np.where(flat == 0, 64, exponents.reshape(flat.shape)).min(axis=1)
    return Factor(scaled, exponents, np.abs(flat).max(axis=1).astype(np.float64), least)


def engine_exponents(scaled: Floats) -> np.ndarray:
    """int32 exponents as the engine counts them, of fp16 numbers times 2^8 (contiguous)."""
    exponents = scaled.view(np.int32) >> 23
    exponents &= 0xFF
    exponents -= 127 + 8
    np.maximum(exponents, -14, out=exponents)
    return exponents


def _zeros(shape: tuple[int, int], bound: float) -> np.ndarray:
    """Where sums of up to `bound` quanta are added: doubles, 64-bit integers where doubles would round."""
    return np.zeros(shape, np.int64 if DOUBLE_LIMIT <= bound < SUM_LIMIT else np.float64)


def _largest(values: Floats) -> Doubles:
    """Of every term [terms, ...], in float64."""
    flat = values.reshape(len(values), -1)
    largest: Doubles = np.maximum(flat.max(axis=1), -flat.min(axis=1)).astype(np.float64)
    return largest


class _Accumulator:
    """Adds rounded products of one tile term by term."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._products = np.empty(shape, np.float32)
        self._keep = np.empty(shape, np.int32)
        self._partial = np.empty(shape, np.float32)

    def add(self, left: Factor, right: Factor, total: np.ndarray) -> None:
        """Adds the products of all terms to `total`, in quanta. Both broadcast against each other to its shape."""
        bounds = left.largest * right.largest + 1
        cut = left.least + right.least < CUT
        nudged = (left.scaled.view(np.int32) + 1).view(np.float32)
        limits = CUT - 1 - left.exponents
        partial, room = self._partial, FLOAT_LIMIT
        partial.fill(0)
        for term in range(len(bounds)):
            bound = float(bounds[term])
            if bound < NUDGE_LIMIT:
                np.multiply(nudged[term], right.scaled[term], out=self._products)
                np.rint(self._products, out=self._products)
            else:
                self._round_large(left.scaled[term], right.scaled[term])
            if cut[term]:
                self._cut(limits[term], right.exponents[term])
            if bound >= FLOAT_LIMIT:
                total += self._products.astype(total.dtype)
                continue
            if bound > room:
                total += partial.astype(total.dtype)
                partial.fill(0)
                room = FLOAT_LIMIT
            np.add(partial, self._products, out=partial)
            room -= bound
        total += partial.astype(total.dtype)

    def _round_large(self, left: Floats, right: Floats) -> None:
        products = self._products
        np.multiply(left, right, out=products)
        signs = np.sign(products)
        np.abs(products, out=products)
        np.add(products, np.float32(0.5), out=products)
        np.floor(products, out=products)
        np.multiply(products, signs, out=products)

    def _cut(self, limits: np.ndarray, exponents: np.ndarray) -> None:
        """Clears products whose exponent sum is below the cut: limits - exponents is negative where one counts."""
        np.subtract(limits, exponents, out=self._keep)
        np.right_shift(self._keep, 31, out=self._keep)
        words = self._products.view(np.int32)
        np.bitwise_and(words, self._keep, out=words)


def outer_sums(left: Floats, right: Floats) -> Doubles:
    """Sum over terms k of left[k, i] * right[k, j] by the rule: float64 [i, j], unrounded.

    `left` [K, I] and `right` [K, J] hold finite fp16 numbers in float32.
    """
    if left.shape[1] > right.shape[1]:
        return outer_sums(right, left).T
    terms, rows, columns = left.shape[0], left.shape[1], right.shape[1]
    total = _zeros((rows, columns), float(_largest(left) @ _largest(right) / QUANTUM))
    wide = min(columns, max(WIDE, TILE // max(rows, 1)))
    tall = max(1, TILE // max(wide, 1))
    accumulators: dict[tuple[int, int], _Accumulator] = {}
    for k in range(0, terms, DEPTH):
        lefts = [(i, _prepare(left[k:k + DEPTH, i:i + tall, None])) for i in range(0, rows, tall)]
        for j in range(0, columns, wide):
            right_factor = _prepare(right[k:k + DEPTH, None, j:j + wide])
            for i, left_factor in lefts:
                tile = total[i:i + tall, j:j + wide]
                shape = (tile.shape[0], tile.shape[1])
                if shape not in accumulators:
                    accumulators[shape] = _Accumulator(shape)
                accumulators[shape].add(left_factor, right_factor, tile)
    return total * QUANTUM


def channel_sums(weights: Floats, columns: Floats) -> Doubles:
    """Sum over terms k of weights[k, c] * columns[k, c, j] by the rule: float64 [c, j], unrounded."""
    terms, channels, width = columns.shape
    total = _zeros((channels, width), float(_largest(weights) @ _largest(columns) / QUANTUM))
    tall = max(1, TILE // max(width, 1))
    for c in range(0, channels, tall):
        for j in range(0, width, TILE):
            tile = total[c:c + tall, j:j + TILE]
            accumulator = _Accumulator(tile.shape)
            for k in range(0, terms, DEPTH):
                accumulator.add(_prepare(weights[k:k + DEPTH, c:c + tall, None]),
                                _prepare(columns[k:k + DEPTH, c:c + tall, j:j + TILE]), tile)
    return total * QUANTUM


def rounded_products(left: Floats, right: Floats) -> Doubles:
    """Each product left * right by steps 1 to 3 of the rule, in quanta: float64 of their shape."""
    a, b = (np.multiply(values, np.float32(256), order="C") for values in (left, right))
    products = a.astype(np.float64) * b
    products = np.copysign(np.floor(np.abs(products) + 0.5), products)
    return np.where(engine_exponents(a) + engine_exponents(b) < CUT, 0.0, products)


def to_half(sums: Doubles) -> Bits:
    """The one conversion at the end: fp16 bits, ties away from zero, infinite from 2^15 on."""
    return encode_away(np.where(np.abs(sums) >= SATURATION, np.copysign(np.inf, sums), sums))


def matrix_product(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """x [M, K] fp16 times weights [N, K] fp16, transposed: [M, N] fp16 by the rule."""
    left = np.ascontiguousarray(decoded(x.view(np.uint16)).T)
    right = np.ascontiguousarray(decoded(weights.view(np.uint16)).T)
    return to_half(outer_sums(left, right)).view(np.float16)
