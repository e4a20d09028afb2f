"""Rules that explain measurements no task described here is known to follow. Nothing calls them but tests.

`short_row_sums`: fits 19 probes of sums over short rows on M1 (a row with 4096 and ones beside it, triples b, -b, 1).
The multiply-accumulate rule is known not to work like this, so that it must be another unit, or another operation.
`width_crop`: what a slice of the width that begins inside does on H13 and H14, whatever task it is.
"""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic.half import decoded, encode_away

TILE = 4
WINDOW = 12
GAIN = 16.0


def short_row_sums(x: np.ndarray) -> np.ndarray:
    """x [..., K] fp16 finite to its sums [...] fp16: tiles of four through a 12-bit window, then exactly.

    Within a tile an operand whose exponent lies 12 or more below the other's is lost.
    """
    values = decoded(np.ascontiguousarray(x).view(np.uint16)).astype(np.float64)
    short = -values.shape[-1] % TILE
    tiles = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, short)]).reshape(*values.shape[:-1], -1, TILE)
    total = tiles[..., 0]
    for lane in range(1, TILE):
        total = _windowed_sum(total, tiles[..., lane])
    return encode_away(total.sum(axis=-1)).view(np.float16)


def width_crop(x: np.ndarray) -> np.ndarray:
    """fp16 values through a gain of 16 and back: unchanged up to 4094, infinite from 4095 on."""
    with np.errstate(all="ignore"):
        raised = decoded(encode_away(decoded(np.ascontiguousarray(x).view(np.uint16)) * np.float64(GAIN)))
    return encode_away(raised / np.float64(GAIN)).view(np.float16)


def _windowed_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    exponents = np.frexp(a)[1], np.frexp(b)[1]
    a_lost = (exponents[1] - exponents[0] >= WINDOW) & (b != 0)
    b_lost = (exponents[0] - exponents[1] >= WINDOW) & (a != 0)
    sums: np.ndarray = np.where(a_lost, 0, a) + np.where(b_lost, 0, b)
    return sums
