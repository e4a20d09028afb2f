"""Parts of a convolution that are computed at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tile:
    """Part of the result: depth, and ranges of groups, channels, rows and columns."""

    groups: Range
    channels: Range
    depth: int
    rows: Range
    columns: Range

    @property
    def count(self) -> int:
        """How many groups it covers."""
        return self.groups[1] - self.groups[0]


@dataclass(frozen=True, slots=True)
class TileElements:
    """A tile and its elements: those of the result, the `shape` [groups, channels, D, H, W] of what it needs of the
    source, and which of that the source has, `inside` it at these places (None: all of it). Where groups stand beside
    each other in one product, channels come before groups, of the result too."""

    tile: Tile
    source: np.ndarray
    shape: tuple[int, ...]
    inside: tuple[slice, ...] | None
    target: np.ndarray
