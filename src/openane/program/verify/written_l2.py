"""Keeps account of which bytes of L2 hold something, byte by byte.

Tensors in L2 lie across each other's remains, row by row, so that sets of regions (see `Written`) would fall into
hundreds of pieces. L2 is small, and a strided write to an array of its size costs a fraction of that.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from openane.program.verify.regions import Region, split

WIDEST = 8
"""Bytes are looked at in words of up to this many."""


class WrittenL2:
    """A set of bytes of an L2 of `size` bytes. Nothing beyond its end counts as written."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._bytes = np.zeros(size + -size % WIDEST, np.uint8)
        self._whole: dict[Region, None] = {}

    def missing(self, region: Region) -> int | None:
        """The first byte of `region` that nothing was written to."""
        if region in self._whole:
            return None
        inside, outside = self._split(region)
        missing = [piece.offset for piece in outside]
        for piece in inside:
            words = self._words(piece)
            if int(words.min()) != np.iinfo(words.dtype).max:
                index = np.argwhere(self._words(piece, 1) == 0)
                strides = [stride for _, stride in piece.loops] + [1]
                missing.append(piece.offset + int((index @ strides).min()))
        if not missing:
            self._whole[region] = None
        return min(missing, default=None)

    def add(self, region: Region) -> None:
        """Every byte of `region` is written."""
        for piece in self._split(region)[0]:
            words = self._words(piece)
            words[...] = np.iinfo(words.dtype).max
        if region.end <= self._size:
            self._whole[region] = None

    def remove(self, region: Region) -> None:
        """No byte of `region` is written any more."""
        for piece in self._split(region)[0]:
            self._words(piece)[...] = 0
        self._whole = {known: None for known in self._whole
                       if known.end <= region.offset or region.end <= known.offset}

    def _split(self, region: Region) -> tuple[list[Region], list[Region]]:
        """The parts of a region in L2 and beyond its end."""
        return split(region, 0, self._size)

    def _words(self, region: Region, widest: int = WIDEST) -> np.ndarray:
        """The bytes of a region inside L2 as an array over its loops and runs, in the widest words that fit."""
        size = gcd(widest, region.offset, region.run, *(stride for _, stride in region.loops))
        shape = (*(extent for extent, _ in region.loops), region.run // size)
        strides = (*(stride for _, stride in region.loops), size)
        return np.ndarray(shape, f"u{size}", self._bytes, region.offset, strides)


__all__ = ["WrittenL2"]
