"""Tiles of a convolution by compiled loops: each tells whether it did its work, or leaves it to numpy."""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic.half import Floats
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat
from openane.simulator.post import PostStage
from openane.simulator.stores import SourceReader, SumStorer
from openane.simulator.tiles import Tile, TileElements


class TileLoops:
    """The loops of one task. What is known of a tile is kept by its identity: tiles stay as long as their task."""

    def __init__(self, context: TaskContext, relu: bool, terms: int, channels_first: bool) -> None:
        """`relu`: no source element is below zero; sums of more than one of the `terms` have the accumulator's range;
        `channels_first`: in results channels stand before groups."""
        self._workspace, self._report = context.workspace, context.report
        self._relu, self._limited, self._channels = relu, terms > 1, 0 if channels_first else 1
        self._readers: dict[int, SourceReader | None] = {}
        self._storers: dict[int, SumStorer | None] = {}

    def read(self, piece: TileElements, slab: Floats) -> bool:
        """Reads a tile's source elements, zeros where they are padding."""
        kernels = self._workspace.kernels
        if kernels is None:
            return False
        if id(piece) not in self._readers:
            flat = Flat.of(piece.source) if piece.source.dtype == np.uint16 else None
            self._readers[id(piece)] = None if flat is None else SourceReader(flat, piece.inside, piece.shape,
                                                                              self._relu)
        reader = self._readers[id(piece)]
        if reader is not None:
            reader(kernels, slab, self._report)
        return reader is not None

    def store(self, piece: TileElements, sums: np.ndarray, bias: Floats | None, stage: PostStage) -> bool:
        """Adds the bias [sets, channels] to a tile's sums and stores them."""
        kernels = self._workspace.kernels
        if kernels is None or stage.table is not None:
            return False
        if id(piece) not in self._storers:
            flat = Flat.of(piece.target[:, :, None]) if piece.target.dtype == np.uint16 else None
            self._storers[id(piece)] = None if flat is None else SumStorer(piece.target, flat, self._channels,
                                                                        self._limited)
        storer = self._storers[id(piece)]
        if storer is not None:
            storer(kernels, np.ascontiguousarray(sums), bias, stage.post, self._report)
        return storer is not None

    def channel_sums(self, slab: Floats, weights: Floats, tile: Tile, inputs: int,
                     kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> Floats | None:
        """Fast sums [groups, channels, positions] of channels with so many inputs of their own."""
        kernels = self._workspace.kernels
        if kernels is None:
            return None
        groups, channels, terms = weights.shape
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        sums = self._workspace.floats((groups, channels, high * wide), 1)
        kernels.channels(slab.reshape(-1), np.ascontiguousarray(weights).reshape(-1, terms), sums.reshape(-1),
                         (groups * channels, high, wide, inputs, kernel[1], kernel[0], kernel[2], *stride[1:],
                          *slab.shape[3:]))
        return sums
