"""Convolutions and matrix products: tiles of the result through im2col and one matrix product each.

The workspace is bounded: a tile holds at most `WORKSPACE` column elements (or one row of them), whatever the shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from openane.engine import Convolution, MatrixProduct
from openane.errors import SimulationError
from openane.simulator.arithmetic import Accumulator, Mode, all_finite, saturate
from openane.simulator.arithmetic.half import BLOCK, Encoder, Floats
from openane.simulator.post import PostStage
from openane.simulator.report import TaskReport
from openane.simulator.streams import read, write

WORKSPACE = 1 << 20
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Weights:
    """float32 weights [groups, channels, rows], biases [groups, channels] and the post stage."""

    values: Floats
    bias: Floats | None
    stage: PostStage
    finite: bool

    @staticmethod
    def of(values: Floats, bias: Floats | None, stage: PostStage) -> Weights:
        """With what is worth knowing about them."""
        return Weights(values, bias, stage, all_finite(values))


@dataclass(frozen=True, slots=True)
class Tile:
    """Part of the result: group, depth, and ranges of channels, rows and columns."""

    group: int
    channels: Range
    depth: int
    rows: Range
    columns: Range


class ConvolutionTask:
    """One prepared convolution; `run` takes the weights, which may change between runs."""

    def __init__(self, operation: Convolution | MatrixProduct, source: np.ndarray, result: np.ndarray,
                 arithmetic: Mode, report: TaskReport, what: str) -> None:
        self._operation, self._report, self._encoder = operation, report, Encoder()
        self._kernel = self._stride = (1, 1, 1)
        self._padding, self._unicast = (0, 0, 0), 0
        if isinstance(operation, Convolution):
            self._kernel, self._stride, self._padding = operation.kernel, operation.stride, operation.padding
            self._unicast = operation.unicast
        if min(*self._kernel, *self._stride) < 1 or min(self._padding) < 0:
            raise SimulationError(f"{what}: kernel {self._kernel} and stride {self._stride} must be at least 1, "
                                  f"padding {self._padding} at least 0")
        self._source, self._result = self._subsampled(source), result
        self._terms = (self._unicast or source.shape[1]) * int(np.prod(self._kernel))
        mode = arithmetic.choose(result.size * self._terms)
        report.arithmetic = str(mode)
        self._accumulator = Accumulator(mode)
        self._tiles = list(self._plan())
        self._workspace = np.empty(self._columns_needed(), np.float32)

    def _subsampled(self, source: np.ndarray) -> np.ndarray:
        """Takes a stride into the source where the kernel has one tap and nothing is padded."""
        stride = list(self._stride)
        steps = [slice(None), slice(None)]
        for axis in range(3):
            skip = self._kernel[axis] == 1 and self._padding[axis] == 0
            steps.append(slice(0, None, stride[axis]) if skip else slice(None))
            stride[axis] = 1 if skip else stride[axis]
        self._stride = (stride[0], stride[1], stride[2])
        return source[tuple(steps)]

    def _plan(self) -> Iterator[Tile]:
        groups, channels, depth, height, width = self._result.shape
        share = channels
        if self._unicast:
            share = max(1, min(channels, WORKSPACE // (self._terms * min(width, BLOCK))))
        per_position = max(self._terms * (share if self._unicast else 1), share)
        positions = max(1, WORKSPACE // per_position)
        across = min(width, positions)
        down = max(1, min(height, positions // across))
        for group in range(groups):
            for channel in range(0, channels, share):
                for plane in range(depth):
                    for row in range(0, height, down):
                        for column in range(0, width, across):
                            yield Tile(group, (channel, min(channel + share, channels)), plane,
                                       (row, min(row + down, height)), (column, min(column + across, width)))

    def _columns_needed(self) -> int:
        """Column elements of the largest tile; none where the source itself serves as columns."""
        if self._kernel == (1, 1, 1) and not self._unicast:
            return 0
        positions = max((t.rows[1] - t.rows[0]) * (t.columns[1] - t.columns[0])
                        * (t.channels[1] - t.channels[0] if self._unicast else 1) for t in self._tiles)
        return positions * self._terms

    def run(self, weights: Weights) -> None:
        """Computes every tile."""
        for tile in self._tiles:
            group = tile.group if len(weights.values) > 1 else 0
            low, high = tile.channels
            terms = weights.values[group, low:high].T
            seen = self._report.nan_inputs + self._report.infinite_inputs
            columns = self._columns(tile)
            finite = weights.finite and seen == self._report.nan_inputs + self._report.infinite_inputs
            compute = self._accumulator.channels if self._unicast else self._accumulator.outer
            sums = compute(terms, columns, finite=finite)
            if weights.bias is not None:
                sums += weights.bias[group, low:high, None]
            if self._terms > 1:
                saturate(sums)
            target = self._result[tile.group, low:high, tile.depth, slice(*tile.rows), slice(*tile.columns)]
            write(weights.stage.apply(sums), target, self._encoder, self._report, to_even=False)

    def _columns(self, tile: Tile) -> Floats:
        """[terms, positions], or [terms, channels, positions] where every channel has inputs of its own."""
        slab = self._slab(tile)
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        if self._kernel == (1, 1, 1) and not self._unicast:
            return slab.reshape(len(slab), -1)
        (deep, tall, broad), (_, down, across) = self._kernel, self._stride
        inputs = self._unicast or len(slab)
        outputs = len(slab) // inputs
        split = slab.reshape(outputs, inputs, *slab.shape[1:])
        shape = (inputs, deep, tall, broad, outputs, high, wide)
        columns = self._workspace[:int(np.prod(shape))].reshape(shape)
        for z in range(deep):
            for y in range(tall):
                for x in range(broad):
                    window = split[:, :, z, y:y + (high - 1) * down + 1:down, x:x + (wide - 1) * across + 1:across]
                    columns[:, z, y, x] = window.swapaxes(0, 1)
        if self._unicast:
            return columns.reshape(self._terms, outputs, high * wide)
        return columns.reshape(self._terms, high * wide)

    def _slab(self, tile: Tile) -> Floats:
        """The source elements a tile needs as float32 [channels, D, H, W], zeros where they are padding."""
        low, high = tile.channels
        channels = slice(low * self._unicast, high * self._unicast) if self._unicast else slice(None)
        source = self._source[tile.group, channels]
        ranges = ((tile.depth, tile.depth + 1), tile.rows, tile.columns)
        starts, extents = [], []
        for axis, (first, last) in enumerate(ranges):
            starts.append(first * self._stride[axis] - self._padding[axis])
            extents.append((last - first - 1) * self._stride[axis] + self._kernel[axis])
        inner, outer = [slice(None)], [slice(None)]
        for start, extent, size in zip(starts, extents, source.shape[1:], strict=True):
            begin, end = max(start, 0), min(start + extent, size)
            outer.append(slice(begin, max(end, begin)))
            inner.append(slice(begin - start, max(end, begin) - start))
        raw = source[tuple(outer)]
        whole = raw.shape[1:] == tuple(extents)
        slab = (np.empty if whole else np.zeros)((len(source), *extents), np.float32)
        if raw.size:
            inside = slab[tuple(inner)]
            read(raw, inside, self._report)
            if self._operation.input_relu:
                np.maximum(inside, 0, out=inside)
        return slab
