"""fp16 numbers times float64 gains, rounded to fp16 once.

numpy converts to fp16 one number at a time. Here the products become float32, of which fp16 is the upper half once the
exponent counts from where fp16's does: adding half a unit and shifting rounds all of a chunk at once. That is right but
for a product that float32 shows in the middle between two fp16 numbers, one in some thousands: numpy rounds those.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CHUNK = 1 << 16
"""How many numbers are worked on at a time, so that they stay in the processor's cache."""
BIAS = 2.0 ** -112
"""A float32 times this has fp16's exponent: the two count from 127 and from 15."""
DROPPED = 13
"""Binary digits of a float32 that fp16 does not have."""
MIDDLE = 1 << DROPPED - 1
SIGN = 0x8000
TAKEN = np.int32(-0x70000001)
"""The bits of a float32 that an fp16 number takes when its sign is extended: all but three."""


def half_products(numbers: np.ndarray, gains: np.ndarray, result: np.ndarray) -> None:
    """`numbers` [n, ...] fp16 times `gains` float64, which have as many dimensions, those of extent 1 repeated, put
    into `result`, fp16 of the shape of `numbers`: each product rounded once, to the nearest and ties to even. All
    numbers and products must be finite in fp16."""
    for part, factors in chunks(numbers, gains):
        taken = np.ascontiguousarray(numbers[part])
        wide = taken.view(np.int16).astype(np.int32)
        np.left_shift(wide, DROPPED, out=wide)
        np.bitwise_and(wide, TAKEN, out=wide)
        products = wide.view(np.float32) * factors  # times BIAS, as the numbers are
        with np.errstate(under="ignore"):
            bits = products.astype(np.float32).view(np.int32)
        np.bitwise_and(bits, 2 * MIDDLE - 1, out=wide)
        middle = np.flatnonzero(wide == MIDDLE)
        np.add(bits, MIDDLE, out=bits)
        np.right_shift(bits, DROPPED, out=bits)
        halves = bits.astype(np.uint16)
        signs = taken.view(np.uint16) ^ np.where(np.signbit(factors), SIGN, 0).astype(np.uint16)
        np.bitwise_or(halves, np.bitwise_and(signs, SIGN, out=signs), out=halves)
        if middle.size:
            halves.reshape(-1)[middle] = (products.reshape(-1)[middle] / BIAS).astype(np.float16).view(np.uint16)
        result[part] = halves.view(np.float16)


def chunks(numbers: np.ndarray, gains: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Slices of the first dimension, of some CHUNK numbers, and their gains."""
    rows = max(1, CHUNK * len(numbers) // max(1, numbers.size))
    for start in range(0, len(numbers), rows):
        part = slice(start, start + rows)
        yield part, gains[part] if len(gains) > 1 else gains
