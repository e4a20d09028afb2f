"""Keeps account of which bytes of L2 hold something, byte by byte.

Tensors in L2 lie across each other's remains, row by row, so that sets of regions (see `Written`) would fall into
hundreds of pieces. L2 is small: one number with a binary digit for each of its bytes tells all of it.
"""

from __future__ import annotations

from functools import lru_cache

from openane.program.verify.regions import Loops, Region, split

REMEMBERED = 64


class WrittenL2:
    """A set of bytes of an L2 of `size` bytes. Nothing beyond its end counts as written."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._digits = 0
        self._whole: dict[Region, None] = {}

    def missing(self, region: Region) -> int | None:
        """The first byte of `region` that nothing was written to."""
        if region in self._whole:
            return None
        inside, outside = split(region, 0, self._size)
        missing = [piece.offset for piece in outside]
        for piece in inside:
            wanted = _digits(piece.loops, piece.run)
            left = wanted & ~(self._digits >> piece.offset)
            if left:
                missing.append(piece.offset + (left & -left).bit_length() - 1)
        if not missing:
            self._whole[region] = None
        return min(missing, default=None)

    def add(self, region: Region) -> None:
        """Every byte of `region` is written."""
        for piece in split(region, 0, self._size)[0]:
            self._digits |= _digits(piece.loops, piece.run) << piece.offset
        if region.end <= self._size:
            self._whole[region] = None

    def remove(self, region: Region) -> None:
        """No byte of `region` is written any more."""
        for piece in split(region, 0, self._size)[0]:
            self._digits ^= self._digits & _digits(piece.loops, piece.run) << piece.offset
        self._whole = {known: None for known in self._whole
                       if known.end <= region.offset or region.end <= known.offset}


@lru_cache(maxsize=REMEMBERED)
def _digits(loops: Loops, run: int) -> int:
    """The bytes of a region that begins at the first one, a binary digit each. Regions within L2 only: the number is as
    large as they are."""
    digits = (1 << run) - 1
    for extent, stride in reversed(loops):
        count = 1
        while count < extent:
            more = min(count, extent - count)
            digits |= digits << more * stride
            count += more
    return digits


__all__ = ["WrittenL2"]
