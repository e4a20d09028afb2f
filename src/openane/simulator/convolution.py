"""Convolutions and matrix products: tiles of the result through im2col and matrix products.

Terms are ordered kernel row, input channel, kernel plane, kernel column. In fast arithmetic with a row stride of 1 only
the kernel columns are unrolled: the terms of one kernel row then are the same columns, some rows further on.

The workspace is bounded: a tile holds at most `WORKSPACE` column elements (or one row of them), whatever the shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from openane.engine import Convolution, MatrixProduct
from openane.errors import SimulationError
from openane.simulator.arithmetic import Accumulator, Form, Mode, all_finite, saturate
from openane.simulator.arithmetic.half import BLOCK, Floats
from openane.simulator.context import Context, padded
from openane.simulator.post import PostStage
from openane.simulator.streams import read, write

WORKSPACE = 1 << 19
ROW_TERMS = 64  # terms of one kernel row from which a product of their own pays
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Weights:
    """float32 weights [groups, channels, terms], biases [groups, channels] and the post stage."""

    values: Floats
    bias: Floats | None
    stage: PostStage
    finite: bool

    @staticmethod
    def of(values: Floats, bias: Floats | None, stage: PostStage) -> Weights:
        """With what is worth knowing about them."""
        return Weights(values, bias, stage, all_finite(values))


def term_order(rows: int, kernel: tuple[int, int, int]) -> np.ndarray:
    """Row of the stream (input channel slowest, then kernel plane, row, column) behind every term."""
    return np.arange(rows).reshape(-1, *kernel).transpose(2, 0, 1, 3).reshape(-1)


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
                 context: Context) -> None:
        self._operation, self._context, self._report = operation, context, context.report
        self._kernel = self._stride = (1, 1, 1)
        self._padding, self._unicast = (0, 0, 0), 0
        if isinstance(operation, Convolution):
            self._kernel, self._stride, self._padding = operation.kernel, operation.stride, operation.padding
            self._unicast = operation.unicast
        if min(*self._kernel, *self._stride) < 1 or min(self._padding) < 0:
            raise SimulationError(f"{context.what}: kernel {self._kernel} and stride {self._stride} must be at least "
                                  f"1, padding {self._padding} at least 0")
        self._source, self._result = self._subsampled(source), result
        self._terms = (self._unicast or source.shape[1]) * int(np.prod(self._kernel))
        products = result.size * self._terms
        mode = context.arithmetic.choose(products)
        self._accumulator = Accumulator(mode, context.form.of(products) if mode is Mode.EXACT else Form.NUMPY)
        context.report.arithmetic, context.report.form = str(mode), str(self._accumulator.form)
        self._by_row = (mode is Mode.FAST and not self._unicast and self._stride[1] == 1
                        and self._terms // self._kernel[1] >= ROW_TERMS and self._kernel[1] > 1)
        self._tiles = list(self._plan())
        for tile in self._tiles[:1]:  # the largest
            slab = self._slab_shape(tile)
            context.workspace.reserve(padded(prod(slab)) + prod(self._columns_shape(tile, slab[0])))

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
        down = -(-height // -(-height // down))  # as many tiles, of equal size
        for group in range(groups):
            for channel in range(0, channels, share):
                for plane in range(depth):
                    for row in range(0, height, down):
                        for column in range(0, width, across):
                            yield Tile(group, (channel, min(channel + share, channels)), plane,
                                       (row, min(row + down, height)), (column, min(column + across, width)))

    def run(self, weights: Weights) -> None:
        """Computes every tile."""
        for tile in self._tiles:
            self._run_tile(tile, weights)

    def _run_tile(self, tile: Tile, weights: Weights) -> None:
        group = tile.group if len(weights.values) > 1 else 0
        low, high = tile.channels
        sums = self._sums(tile, weights.values[group, low:high].T, weights.finite)
        if weights.bias is not None:
            sums += weights.bias[group, low:high, None]
        if self._terms > 1:
            saturate(sums)
        target = self._result[tile.group, low:high, tile.depth, slice(*tile.rows), slice(*tile.columns)]
        write(weights.stage.apply(sums), target, self._context, to_even=False)

    def _sums(self, tile: Tile, terms: Floats, finite: bool) -> np.ndarray:
        """[channels, positions] of a tile; `terms` is [terms, channels]."""
        seen = self._report.nan_inputs + self._report.infinite_inputs
        slab = self._slab(tile)
        finite = finite and seen == self._report.nan_inputs + self._report.infinite_inputs
        if self._by_row and finite:
            return self._sums_by_row(tile, terms, slab)
        columns = self._columns(tile, slab)
        if self._unicast:
            return self._accumulator.channels(terms, columns, finite=finite)
        return self._accumulator.outer(terms, columns, finite=finite)

    def _sums_by_row(self, tile: Tile, terms: Floats, slab: Floats) -> np.ndarray:
        (tall, broad), across = self._kernel[1:], self._stride[2]
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        columns = self._context.workspace.floats(self._columns_shape(tile, len(slab)), 1)
        for x in range(broad):
            columns[:, :, x] = slab[..., x:x + (wide - 1) * across + 1:across]
        flat, count = columns.reshape(-1, slab.shape[2] * wide), len(terms) // tall
        total = self._accumulator.outer(terms[:count], flat[:, :high * wide], finite=True)
        for row in range(1, tall):
            total += self._accumulator.outer(terms[row * count:(row + 1) * count],
                                             flat[:, row * wide:(row + high) * wide], finite=True)
        return total

    def _columns(self, tile: Tile, slab: Floats) -> Floats:
        """[terms, positions], or [terms, channels, positions] where every channel has inputs of its own."""
        shape = self._columns_shape(tile, len(slab), whole=True)
        if not shape:
            return slab.reshape(len(slab), -1)
        tall, inputs, deep, broad, outputs, high, wide = shape
        down, across = self._stride[1:]
        split = slab.reshape(outputs, inputs, *slab.shape[1:])
        columns = self._context.workspace.floats(shape, 1)
        for z in range(deep):
            for y in range(tall):
                for x in range(broad):
                    window = split[:, :, z, y:y + (high - 1) * down + 1:down, x:x + (wide - 1) * across + 1:across]
                    columns[y, :, z, x] = window.swapaxes(0, 1)
        if self._unicast:
            return columns.reshape(self._terms, outputs, high * wide)
        return columns.reshape(self._terms, high * wide)

    def _columns_shape(self, tile: Tile, channels: int, whole: bool = False) -> tuple[int, ...]:
        """Of the unrolled columns of so many source channels, all of them or those of one kernel row; empty where the
        source itself is the columns."""
        (deep, tall, broad), down = self._kernel, self._stride[1]
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        if self._by_row and not whole:
            return channels, deep, broad, (high - 1) * down + tall, wide
        if self._kernel == self._stride == (1, 1, 1) and not self._unicast:
            return ()
        inputs = self._unicast or channels
        return tall, inputs, deep, broad, channels // inputs, high, wide

    def _slab_shape(self, tile: Tile) -> tuple[int, int, int, int]:
        """Channels, D, H, W of the source elements a tile needs."""
        low, high = tile.channels
        ranges = ((tile.depth, tile.depth + 1), tile.rows, tile.columns)
        extents = [(last - first - 1) * stride + tap
                   for (first, last), stride, tap in zip(ranges, self._stride, self._kernel, strict=True)]
        return self._unicast * (high - low) or self._source.shape[1], extents[0], extents[1], extents[2]

    def _slab(self, tile: Tile) -> Floats:
        """The source elements a tile needs as float32 [channels, D, H, W], zeros where they are padding."""
        low, high = tile.channels
        shape = self._slab_shape(tile)
        channels = slice(low * self._unicast, high * self._unicast) if self._unicast else slice(None)
        source = self._source[tile.group, channels]
        firsts = (tile.depth, tile.rows[0], tile.columns[0])
        inner, outer = [slice(None)], [slice(None)]
        for axis, (first, extent, size) in enumerate(zip(firsts, shape[1:], source.shape[1:], strict=True)):
            start = first * self._stride[axis] - self._padding[axis]
            begin, end = max(start, 0), min(start + extent, size)
            outer.append(slice(begin, max(end, begin)))
            inner.append(slice(begin - start, max(end, begin) - start))
        raw = source[tuple(outer)]
        whole = raw.shape == shape
        slab = self._context.workspace.floats(shape)
        if not whole:
            slab.fill(0)
        if raw.size:
            numbers = slab if whole else self._context.workspace.floats(raw.shape, 1)
            read(raw, numbers, self._report)
            if self._operation.input_relu:
                np.maximum(numbers, 0, out=numbers)
            if not whole:
                slab[tuple(inner)] = numbers
        return slab
