"""Parts of a convolution that are computed at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from openane.errors import SimulationError
from openane.record_classes import dataclass
from openane.simulator.context import Workspace

Range = tuple[int, int]
Triple = tuple[int, int, int]


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


def require_places(kernel: Triple, stride: Triple, padding: Triple, what: str) -> None:
    """SimulationError, which names the task `what`, unless these can be those of windows."""
    if min(*kernel, *stride) < 1 or min(padding) < 0:
        raise SimulationError(f"{what}: kernel {kernel} and stride {stride} must be at least 1, padding {padding} at "
                              "least 0")


@dataclass(frozen=True, slots=True)
class TilePlaces:
    """Where tiles of a convolution lie: its operands, kernel, stride and padding (planes, rows, columns), how many
    source channels every channel has of its own, if it has, and whether groups stand `beside` each other."""

    source: np.ndarray
    result: np.ndarray
    kernel: Triple
    stride: Triple
    padding: Triple
    unicast: int
    beside: bool

    def elements(self, tile: Tile) -> TileElements:
        """A tile and its elements."""
        low, high = tile.channels
        channels = slice(low * self.unicast, high * self.unicast) if self.unicast else slice(None)
        source = self.source[slice(*tile.groups), channels]
        inner, outer, extents = [slice(None)] * 2, [slice(None)] * 2, []
        places = zip(((tile.depth, tile.depth + 1), tile.rows, tile.columns), self.stride, self.kernel, self.padding,
                     source.shape[2:], strict=True)
        for (first, last), stride, taps, padding, size in places:
            start, extent = first * stride - padding, (last - first - 1) * stride + taps
            begin, end = max(start, 0), min(start + extent, size)
            outer.append(slice(begin, max(end, begin)))
            inner.append(slice(begin - start, max(end, begin) - start))
            extents.append(extent)
        raw = source[tuple(outer)]
        target = self.result[slice(*tile.groups), low:high, tile.depth, slice(*tile.rows), slice(*tile.columns)]
        if self.beside:
            raw, target = raw.swapaxes(0, 1), target.swapaxes(0, 1)
        shape = (*raw.shape[:2], *extents)
        return TileElements(tile, raw, shape, None if raw.shape == shape else tuple(inner), target)


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
