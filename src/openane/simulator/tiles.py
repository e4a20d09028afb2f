"""Parts of a convolution that are computed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.context import Workspace

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


def cut(shape: tuple[int, ...], share: int, down: int, across: int, together: int) -> Iterator[Tile]:
    """Tiles that cover a result [groups, channels, D, H, W], each of at most so many channels, rows, columns and
    groups."""
    groups, channels, depth, height, width = shape
    for group in range(0, groups, together):
        for channel in range(0, channels, share):
            for plane in range(depth):
                for row in range(0, height, down):
                    for column in range(0, width, across):
                        yield Tile((group, min(group + together, groups)), (channel, min(channel + share, channels)),
                                   plane, (row, min(row + down, height)), (column, min(column + across, width)))


def padded_elements(piece: TileElements, workspace: Workspace) -> np.ndarray:
    """The raw elements of a tile, whose zeros are those of numbers: in memory of the workspace."""
    raw = workspace.bits(piece.shape).reshape(-1).view(piece.source.dtype)[:prod(piece.shape)]
    raw.fill(0)
    raw = raw.reshape(piece.shape)
    raw[piece.inside] = piece.source
    return raw
