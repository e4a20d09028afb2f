"""Weight matrices in 8 and 4 bits, as the operands of the constexpr operation that gives the matrix back."""

from __future__ import annotations

import numpy as np

from openane.quantization.forms import centres

INT8 = 127
ENTRIES = 16
BLOCK = 64
"""Rows of a matrix that share a palette."""
ROUNDS = 12


def symmetric(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """[outputs, inputs] as int8 `data` and fp16 `scale` [outputs, 1]: data * scale, no offset."""
    wide = np.asarray(matrix, np.float32)
    scale = (np.abs(wide).max(axis=1, keepdims=True) / INT8).astype(np.float16)
    divisor = np.where(scale == 0, np.float16(1), scale).astype(np.float32)
    return {"data": np.clip(np.rint(wide / divisor), -INT8, INT8).astype(np.int8), "scale": scale}


def palette(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """[outputs, inputs] as `indices` (4 bits, one per byte) and fp16 `lut` [blocks, 1, 16, 1]: a palette for every 64
    rows, or one for all where 64 does not divide their number. Palettes are those of least squared error that k-means
    on a histogram finds from evenly filled classes."""
    wide = np.asarray(matrix, np.float32)
    rows = BLOCK if wide.shape[0] % BLOCK == 0 else wide.shape[0]
    blocks = wide.reshape(-1, rows, wide.shape[1])
    tables = np.stack([centres(block, ENTRIES, 1, ROUNDS) for block in blocks])
    borders = (tables[:, 1:] + tables[:, :-1]) / 2
    indices = np.stack([np.searchsorted(border, block).astype(np.uint8)
                        for border, block in zip(borders, blocks, strict=True)])
    return {"indices": indices.reshape(wide.shape), "lut": tables.astype(np.float16)[:, None, :, None]}
