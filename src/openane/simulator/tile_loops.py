"""Tiles of a convolution by compiled loops: each tells whether it did its work, or leaves it to numpy."""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic.half import Floats
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat
from openane.simulator.post import PostStage
from openane.simulator.stores import ChannelLoop, SourceReader, StageNumbers, SumStorer
from openane.simulator.tiles import TileElements


class TileLoops:
    """The loops of one task. What is known of a tile is kept by its identity: tiles stay as long as their task."""

    def __init__(self, context: TaskContext, relu: bool, terms: int, channels_first: bool) -> None:
        """`relu`: no source element is below zero; sums of more than one of the `terms` have the accumulator's range;
        `channels_first`: in results channels stand before groups."""
        self._workspace, self._report = context.workspace, context.report
        self._relu, self._limited, self._channels = relu, terms > 1, 0 if channels_first else 1
        self._readers: dict[int, SourceReader | None] = {}
        self._storers: dict[int, SumStorer | None] = {}
        self._channel_loops: dict[int, ChannelLoop | None] = {}

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

    def channels(self, piece: TileElements, weights: Floats, bias: Floats | None, stage: PostStage,
                 windows: tuple[int, tuple[int, int, int], tuple[int, int, int]]) -> bool:
        """A whole tile in fast arithmetic where every channel has inputs of its own: how many, kernel and stride are
        the `windows`. `weights` [sets, channels, terms] are finite."""
        kernels = self._workspace.kernels
        if kernels is None or stage.table is not None:
            return False
        if id(piece) not in self._channel_loops:
            halves = piece.source.dtype == piece.target.dtype == np.uint16
            flats = (Flat.of(piece.source), Flat.of(piece.target[:, :, None])) if halves else (None, None)
            inputs, (deep, tall, broad), stride = windows
            starts = (0, 0, 0) if piece.inside is None else tuple(part.start for part in piece.inside[2:])
            self._channel_loops[id(piece)] = None if flats[0] is None or flats[1] is None else ChannelLoop(
                flats[0], flats[1], piece.target, StageNumbers(self._limited),
                (inputs, tall, deep, broad, *stride[1:], *piece.shape[3:], *starts), self._relu)
        loop = self._channel_loops[id(piece)]
        return loop is not None and loop(kernels, weights, bias, stage.post, self._report)
