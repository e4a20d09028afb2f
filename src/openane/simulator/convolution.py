"""Convolutions and matrix products: tiles of the result through im2col and matrix products.

Terms are ordered kernel row, input channel, kernel plane, kernel column. In fast arithmetic with a row stride of 1 only
the kernel columns are unrolled: the terms of one kernel row then are the same columns, some rows further on.

A tile covers as many groups as fit. Exact sums are the same however they are tiled, so that groups with the same
weights are one matrix product; in fast arithmetic every group stays a product of its own, for a longer one might add
in another order, but all are one call.

The workspace is bounded: a tile holds at most `WORKSPACE` column elements (or one row of them), whatever the shapes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from math import prod

import numpy as np

from openane.engine import Convolution, MatrixProduct
from openane.rounding import ceil_div
from openane.simulator.arithmetic import Accumulator, Mode, SumForm, fast, saturate
from openane.simulator.arithmetic.half import BLOCK, Bits, Floats, has_special
from openane.simulator.blocks import apart
from openane.simulator.context import TaskContext, padded
from openane.simulator.products import BoundTile, bound_products
from openane.simulator.streams import MAP_FROM, read, write
from openane.simulator.threads import PRODUCTS, cuts, even_tiles
from openane.simulator.tile_loops import TileLoops
from openane.simulator.tiles import Tile, TileElements, TilePlaces, cut, padded_elements, require_places
from openane.simulator.weights import ConvolutionWeights
from openane.simulator.window_products import ProductWindows, window_products

WORKSPACE = 1 << 19
GROUPED = 1 << 18  # column elements up to which a tile takes another group
ROW_TERMS = 64     # terms of one kernel row from which a product of their own pays


class ConvolutionTask:
    """One prepared convolution. `execute` takes the weights, which may be others each time."""

    def __init__(self, operation: Convolution | MatrixProduct, source: np.ndarray, result: np.ndarray,
                 context: TaskContext) -> None:
        self._operation, self._context, self._report = operation, context, context.report
        self.before: ConvolutionTask | None = None  # the task just before, where that is one, too
        self._kernel, self._stride, self._padding, self._unicast = (1, 1, 1), (1, 1, 1), (0, 0, 0), 0
        if isinstance(operation, Convolution):
            self._kernel, self._stride, self._padding = operation.kernel, operation.stride, operation.padding
            self._unicast = operation.unicast
        require_places(self._kernel, self._stride, self._padding, context.what)
        self._source, self._result = self._subsampled(source), result
        self._terms = (self._unicast or source.shape[1]) * prod(self._kernel)
        products = result.size * self._terms
        self._cost = 1 + self._terms // PRODUCTS  # of a result: elements that take as long to read or store
        mode = context.arithmetic.choose(products)
        self._accumulator = Accumulator(mode, context.form.of(products) if mode is Mode.EXACT else SumForm.NUMPY)
        context.report.arithmetic, context.report.form = str(mode), str(self._accumulator.form)
        self._by_row = mode is Mode.FAST and self._rows_pay()
        own = not operation.shared if isinstance(operation, Convolution) else operation.grouped
        self._own = own and result.shape[0] > 1
        self._beside = mode is Mode.EXACT and not self._unicast and not self._own
        place = TilePlaces(self._source, result, self._kernel, self._stride, self._padding, self._unicast, self._beside)
        self._pieces = [place.elements(tile) for tile in self._plan()]
        self._loops = TileLoops(context, operation.input_relu, self._terms, self._beside)
        for piece in self._pieces[:1]:  # the largest
            columns = max(piece.target.size, prod(self._columns_shape(piece.tile, self._by_row)))
            sums = piece.target.size * (self._kernel[1] if self._by_row else 1)
            context.workspace.reserve(padded(max(prod(piece.shape), sums)) + columns)

    def _rows_pay(self) -> bool:
        """Whether sums over one row of taps at a time are faster than over all of a window's."""
        return not self._unicast and self._stride[1] == 1 and self._kernel[1] > 1 \
            and self._terms // self._kernel[1] >= ROW_TERMS

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
        (_, channels, _, height, width), threads = self._result.shape, self._context.workspace.threads
        share = max(1, min(channels, WORKSPACE // (self._terms * min(width, BLOCK)))) if self._unicast else channels
        per_position = max(self._terms * (share if self._unicast else 1), share)
        positions = max(1, WORKSPACE // per_position)
        across = min(width, positions)
        down = max(1, min(height, positions // across))
        tiles = ceil_div(height, down)
        if self._accumulator.mode is Mode.FAST and not self._unicast:
            tiles = even_tiles(tiles, height, across, self._result.size * self._cost, threads)
        down = ceil_div(height, tiles)  # as many, of equal size
        together = self._together(per_position * down * across)
        yield from cut(self._result.shape, share, down, across, together)

    def _together(self, elements: int) -> int:
        """How many groups a tile covers, of so many column elements each."""
        if not (self._beside or self._unicast or self._accumulator.mode is Mode.FAST) or not apart(self._result):
            return 1  # not one call
        groups = len(self._result)
        most = max(1, min(groups, min(GROUPED, WORKSPACE) // max(elements, 1)))
        return ceil_div(groups, ceil_div(groups, most)) if groups else 1

    def execute(self, weights: ConvolutionWeights) -> None:
        """Computes every tile."""
        table = self._table(weights)
        bound = self.products(weights) if table is None else ()
        for number, piece in enumerate(self._pieces):
            if (table is None or not self._take(piece, weights, table)) and not (bound and bound[number](weights)):
                weights = weights.certain()
                self._compute_tile(piece, weights)

    def products(self, weights: ConvolutionWeights) -> list[BoundTile]:
        """The tiles with everything bound; none where weights or loops are not for that."""
        direct = weights.finite and weights.used is None and self._context.workspace.kernels is not None
        return self.bound if direct and not (weights.ordered and not self._is_direct) else []

    @property
    def _is_direct(self) -> bool:
        """Whether source elements are the columns of the product."""
        return self._kernel == self._stride == (1, 1, 1)

    @cached_property
    def bound(self) -> list[BoundTile]:
        """The tiles with everything bound; none where that is not for them."""
        if self._accumulator.mode is not Mode.FAST or self._unicast:
            return []
        pieces, relu = [(piece, self._sets(piece.tile)) for piece in self._pieces], self._operation.input_relu
        before = [] if self.before is None else vars(self.before).get("bound", [])
        if self._is_direct:
            return bound_products(self._context, pieces, relu, self._terms, before)
        windows = ProductWindows(self._kernel, self._stride, self._by_row, relu)
        return window_products(self._context, pieces, windows, before)

    def _compute_tile(self, piece: TileElements, weights: ConvolutionWeights) -> None:
        self._context.workspace.held = None
        part = self._sets(piece.tile), slice(*piece.tile.channels)
        bias = None if weights.bias is None else weights.bias[part]
        windows = self._unicast, self._kernel, self._stride
        alone = self._unicast and weights.finite and self._accumulator.mode is Mode.FAST
        if alone and self._loops.channels(piece, weights.values[part], bias, weights.stage, windows):
            return
        sums = self._sums(piece, weights)
        if not self._loops.store(piece, sums, bias, weights.stage):
            if bias is not None:
                sums += bias[0, :, None] if self._beside else bias[:, :, None]
            if self._terms > 1:
                saturate(sums)
            write(weights.stage.apply(sums), piece.target, self._context, to_even=False)

    def _sets(self, tile: Tile) -> slice:
        """Which sets of weights the groups of a tile have: each its own, or all the only one."""
        return slice(*tile.groups) if self._own else slice(1)

    def _table(self, weights: ConvolutionWeights) -> Bits | None:
        """Where every output is a function of one source element: fp16 results by fp16 words."""
        single, halves = weights.single, self._source.dtype == self._result.dtype == np.uint16
        if single is None or not halves or self._unicast or self._result.size < MAP_FROM:
            return None
        mode, clamped, limited = self._accumulator.mode, self._operation.input_relu, self._terms > 1
        lookup = self._context.workspace.lookup((single.weight, weights.stage, clamped, mode, limited))
        if lookup.table is None:
            lookup.table = single.results(weights.stage, self._accumulator, clamped, limited)
        return lookup.table

    def _take(self, piece: TileElements, weights: ConvolutionWeights, table: Bits) -> bool:
        """Looks the results of a tile up; False, and nothing done, where an infinity would meet a weight of zero."""
        assert weights.single is not None
        raw = piece.source if piece.inside is None else padded_elements(piece, self._context.workspace)
        if has_special(raw):
            return False
        words = self._context.workspace.halves(raw.shape, 0)
        table.take(raw, out=words, mode="clip")
        result = self._context.workspace.halves(piece.target.shape, 1)
        sources, targets = (words, result) if self._beside else (words.swapaxes(0, 1), result.swapaxes(0, 1))
        for target, term in zip(targets, weights.single.terms[slice(*piece.tile.channels)], strict=True):
            target[...] = self._window(piece, sources, term)
        self._report.stored(result)
        piece.target[...] = result
        return True

    def _window(self, piece: TileElements, sources: np.ndarray, term: int) -> np.ndarray:
        """The source elements [groups, rows, columns] of one term; `sources` is [channels, groups, D, H, W]."""
        (deep, _, broad), (_, down, across) = self._kernel, self._stride
        rest, x = divmod(term, broad)
        rest, z = divmod(rest, deep)
        y, channel = divmod(rest, self._source.shape[1])
        high, wide = piece.target.shape[2:]
        return sources[channel, :, z, y:y + (high - 1) * down + 1:down, x:x + (wide - 1) * across + 1:across]

    def _sums(self, piece: TileElements, weights: ConvolutionWeights) -> np.ndarray:
        """[groups, channels, positions] of a tile, or [channels, groups * positions] where groups stand beside each
        other."""
        seen = self._report.nan_inputs + self._report.infinite_inputs
        tile, slab = piece.tile, self._slab(piece)
        values = weights.values[self._sets(tile), slice(*tile.channels)]
        calm = weights.finite and seen == self._report.nan_inputs + self._report.infinite_inputs
        if self._beside:
            if weights.used is not None and calm:
                return self._used_sums(piece, values[0][:, weights.used], slab, weights.used)
            return self._accumulator.outer(values[0].T, self._columns(tile, slab), finite=calm)
        if self._unicast:
            return self._channel_sums(tile, values, slab, calm)
        if self._accumulator.mode is Mode.FAST and calm:
            if weights.used is not None and not self._by_row:
                return self._shared_sums(values, self._used_columns(piece, slab, weights.used))
            return self._stacked_sums(tile, values, slab, weights.ordered)
        if tile.count > 1:
            return self._sums_by_group(piece, values, slab, weights.finite)
        return self._accumulator.outer(values[0].T, self._columns(tile, slab)[0], finite=calm)[None]

    def _used_sums(self, piece: TileElements, weights: Floats, slab: Floats, used: np.ndarray) -> np.ndarray:
        """Exact sums of some terms, where the others add zeros."""
        columns = self._context.workspace.floats((len(used), piece.tile.count, *piece.target.shape[2:]), 1)
        for column, term in zip(columns, used.tolist(), strict=True):
            column[...] = self._window(piece, slab, term)
        return self._accumulator.outer(weights.T, columns.reshape(len(used), -1), finite=True)

    def _used_columns(self, piece: TileElements, slab: Floats, used: np.ndarray) -> Floats:
        """[groups, terms, positions] with zeros for terms whose weights are all zero: the product stays the one it
        would be."""
        columns = self._context.workspace.floats((piece.tile.count, self._terms, *piece.target.shape[2:]), 1)
        columns.fill(0)
        for term in used.tolist():
            columns[:, term] = self._window(piece, slab.swapaxes(0, 1), term)
        return columns.reshape(piece.tile.count, self._terms, -1)

    def _channel_sums(self, tile: Tile, weights: Floats, slab: Floats, finite: bool) -> np.ndarray:
        every = weights if len(weights) == tile.count else np.repeat(weights, tile.count, axis=0)
        sums = self._accumulator.channels(every.reshape(-1, self._terms).T, self._columns(tile, slab), finite=finite)
        return sums.reshape(*every.shape[:2], -1)

    def _sums_by_group(self, piece: TileElements, weights: Floats, slab: Floats, finite: bool) -> np.ndarray:
        """Each group as if it were alone: an infinity in one of them decides nothing for the others."""
        tile, first, sums = piece.tile, piece.tile.groups[0], []
        for i in range(tile.count):
            one, own = replace(tile, groups=(first + i, first + i + 1)), weights[i:i + 1] if self._own else weights
            calm = finite and not (piece.source.dtype == np.uint16 and has_special(piece.source[i]))
            if calm:
                sums.append(self._stacked_sums(one, own, slab[i:i + 1])[0])
            else:
                columns = self._columns(one, slab[i:i + 1])[0]
                sums.append(self._accumulator.outer(own[0].T, columns, finite=calm))
        return np.stack(sums)

    def _shared_sums(self, weights: Floats, columns: Floats) -> Floats:
        """Of finite numbers in fast arithmetic, by the threads that share the run: the same parts as with loops."""
        helpers, shape = self._context.workspace.helpers, (len(columns), weights.shape[1], columns.shape[2])
        threads = self._context.workspace.threads if len(self._pieces) == 1 else 1
        parts = cuts(*shape[:2], prod(shape) * self._cost, threads)
        if helpers is None or len(parts) == 1:
            return fast.stacked_sums(weights, columns)
        sums = np.empty(shape, np.float32)
        helpers.share([partial(np.matmul, weights[part if len(weights) > 1 else slice(None), some], columns[part],
                               out=sums[part, some]) for part, some in parts])
        return sums

    def _stacked_sums(self, tile: Tile, weights: Floats, slab: Floats, ordered: bool = False) -> np.ndarray:
        """Of finite numbers in fast arithmetic."""
        if not self._by_row:
            return (fast.ordered_sums if ordered else self._shared_sums)(weights, self._columns(tile, slab))
        (tall, broad), across = self._kernel[1:], self._stride[2]
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        columns = self._context.workspace.floats(self._columns_shape(tile, by_row=True), 1)
        for x in range(broad):
            columns[:, :, :, x] = slab[..., x:x + (wide - 1) * across + 1:across]
        flat, count = columns.reshape(tile.count, -1, slab.shape[3] * wide), self._terms // tall
        total = self._shared_sums(weights[..., :count], flat[..., :high * wide])
        for row in range(1, tall):
            total += self._shared_sums(weights[..., row * count:(row + 1) * count],
                                       flat[..., row * wide:(row + high) * wide])
        return total

    def _columns(self, tile: Tile, slab: Floats) -> Floats:
        """[groups, terms, positions]; [terms, groups * positions] where groups stand beside each other, and [terms,
        groups * channels, positions] where every channel has inputs of its own."""
        count, terms = tile.count, self._terms
        shape = self._columns_shape(tile)
        if not shape:
            return slab.reshape(terms, -1) if self._beside else slab.reshape(count, terms, -1)
        stacks, tall, inputs, deep, broad, outputs, high, wide = shape
        down, across = self._stride[1:]
        extents = slab.shape[2:]
        split = (slab.reshape(1, outputs, inputs, *extents).swapaxes(1, 2) if self._unicast
                 else slab.reshape(stacks, inputs, outputs, *extents))
        columns = self._context.workspace.floats(shape, 1)
        for z in range(deep):
            for y in range(tall):
                for x in range(broad):
                    columns[:, y, :, z, x] = split[..., z, y:y + (high - 1) * down + 1:down,
                                                   x:x + (wide - 1) * across + 1:across]
        if self._unicast:
            return columns.reshape(terms, outputs, high * wide)
        return columns.reshape(terms, -1) if self._beside else columns.reshape(count, terms, -1)

    def _columns_shape(self, tile: Tile, by_row: bool = False) -> tuple[int, ...]:
        """Of the unrolled columns, all of them or those of one kernel row; empty where the source itself is the
        columns."""
        (deep, tall, broad), down = self._kernel, self._stride[1]
        high, wide = tile.rows[1] - tile.rows[0], tile.columns[1] - tile.columns[0]
        channels = tile.channels[1] - tile.channels[0]
        if by_row:
            return tile.count, self._source.shape[1], deep, broad, (high - 1) * down + tall, wide
        if self._unicast:
            return 1, tall, self._unicast, deep, broad, tile.count * channels, high, wide
        if self._kernel == self._stride == (1, 1, 1):
            return ()
        stacks, outputs = (1, tile.count) if self._beside else (tile.count, 1)
        return stacks, tall, self._source.shape[1], deep, broad, outputs, high, wide

    def _slab(self, piece: TileElements) -> Floats:
        """The source elements a tile needs as float32, zeros where they are padding."""
        slab, raw = self._context.workspace.floats(piece.shape), piece.source
        if self._loops.read(piece, slab):
            return slab
        if piece.inside is not None:
            raw = padded_elements(piece, self._context.workspace)
        if raw.size:
            read(raw, slab, self._report)
            if self._operation.input_relu:
                np.maximum(slab, 0, out=slab)
        return slab
