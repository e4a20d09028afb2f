"""Products of float32 numbers by gains, one after the other, rounded once where they are put, a part at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.ops.half_bits import half_into, half_products_into, to_half
from openane.ops.half_products import chunks


def put_products(target: np.ndarray, numbers: np.ndarray, gains: Sequence[np.ndarray]) -> None:
    """Puts `numbers` [n, ...] float32 times each of `gains`, float32, which have as many dimensions, those of extent 1
    repeated, into `target`, of the shape of `numbers`. What fp16 is to hold of that is finite."""
    first, *more = gains
    halves, room = target.dtype == np.float16, np.empty(0, np.float32)
    for part, factors in chunks(numbers, first):
        taken, place = numbers[part], target[part]
        together = halves and place.flags.c_contiguous
        if together and not more:
            half_products_into(place, taken, factors)
            continue
        if taken.size > room.size:
            room = np.empty(taken.size, np.float32)
        products = np.multiply(taken, factors, out=room[:taken.size].reshape(taken.shape))
        for gain in more:
            np.multiply(products, gain[part] if len(gain) > 1 else gain, out=products)
        if together:
            half_into(place, products, known=True)
        else:
            place[...] = to_half(products, finite=True) if halves else products
