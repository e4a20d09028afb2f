"""Steps of 8-bit integers in blocks of a weight, from the least number of each block to its largest.

A scale alone spends its integers on both sides of 0 alike, as many as the larger side needs. With an offset, the
integer that stands for 0, all 256 lie between the least and the largest number. Of normal numbers the steps become 13 %
finer in blocks of 32, 17 % in blocks of 16, and 8 % in rows of some hundred.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.ops.compressed import spread

LEAST, LARGEST = -128, 127


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """What integers stand for, scale * (integer - offset), for each block of a weight and of its rank: `scale` in its
    element type, `offset` int8."""

    scale: np.ndarray
    offset: np.ndarray

    def laid(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Scales and offsets for each number of a weight, float32."""
        return (spread(self.scale.astype(np.float32), shape), spread(self.offset.astype(np.float32), shape))


def block_steps(weight: np.ndarray, axis: int, dtype: np.dtype[np.generic], block: int | None) -> BlockSteps:
    """The finest steps that reach from the least to the largest number of each block (see `folded`), and 0; scales in
    an element type."""
    parts, inside = folded(weight, axis, block)
    low, high = np.minimum(parts.min(inside), 0), np.maximum(parts.max(inside), 0)
    width = high - low
    scale = (width / np.float32(LARGEST - LEAST)).astype(dtype)
    short = scale.astype(np.float32) * np.float32(LARGEST - LEAST + 0.25) < width
    scale = np.where(short, np.nextafter(scale, dtype.type(np.inf)), scale)
    steps = low / np.where(scale == 0, np.float32(1), scale.astype(np.float32))
    return BlockSteps(scale, np.clip(np.rint(LEAST - steps), LEAST, LARGEST).astype(np.int8))


def nearest_steps(numbers: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """The integers, of the type of `numbers`, that stand for what is nearest."""
    steps = np.rint(numbers / np.where(scale == 0, np.float32(1), scale)) + offset
    return np.asarray(np.clip(steps, LEAST, LARGEST))


def folded(weight: np.ndarray, axis: int, block: int | None) -> tuple[np.ndarray, tuple[int, ...]]:
    """A weight cut into blocks, and the dimensions inside of them: blocks are one channel (a place of `axis`) wide and
    `block` long in the first other dimension that can be cut so, whole in all others."""
    lengths = list(weight.shape)
    lengths[axis] = 1
    cut = None if block is None else next((d for d, extent in enumerate(weight.shape)
                                           if d != axis and extent % block == 0), None)
    if cut is not None and block is not None:
        lengths[cut] = block
    parts = weight.reshape([part for extent, length in zip(weight.shape, lengths, strict=True)
                            for part in (extent // length, length)])
    return parts, tuple(range(1, parts.ndim, 2))
