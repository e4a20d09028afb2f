"""Tiles whose source elements are the columns of their matrix product, in fast arithmetic: everything a run needs is
bound once, and elements the task before has left decoded are not decoded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from openane.simulator.arithmetic.half import Floats
from openane.simulator.calls import Lane, LoopCall, TaskCall, TaskCalls, Together, flat, make
from openane.simulator.context import TaskContext, padded
from openane.simulator.kernels import Flat, Kernels
from openane.simulator.post import PostStage
from openane.simulator.stores import SourceReader, SumStorer
from openane.simulator.threads import PRODUCTS, Cut, cuts
from openane.simulator.tiles import TileElements
from openane.simulator.weights import ConvolutionWeights

Views = tuple[Floats, Floats, Floats]


class BoundTile:
    """A tile from words to words, everything bound."""

    def __init__(self, context: TaskContext, piece: TileElements, sets: slice, whole: bool, terms: int) -> None:
        """`sets` are those of the weights that the tile's groups have; `whole`: it is the only tile; sums of more than
        one of the `terms` have the accumulator's range."""
        self._workspace, self._report, self._piece = context.workspace, context.report, piece
        self._part, self._whole, self._terms = (sets, slice(*piece.tile.channels)), whole, terms
        self.threads = 1 if np.may_share_memory(piece.source, piece.target) else self._workspace.threads
        """That share it: one where what was stored could be read again, and where they share the tiles."""
        self.slot = 0
        """Which memory it uses."""
        self._memory: np.ndarray | None = None
        self._storers: dict[int, list[tuple[Cut, SumStorer]]] = {}
        self.source: BoundTile | None = None
        """The one before, where that leaves the elements of this one's source decoded."""

    def __call__(self, weights: ConvolutionWeights) -> bool:
        """Computes it with finite weights. False, and nothing done, where a source element is not finite or the stage
        has a table."""
        raise NotImplementedError

    def calls(self, weights: ConvolutionWeights, follows: bool) -> list[TaskCall]:
        """What does the same in memory that stays, also where the workspace has other memory later. `follows`: source
        elements are decoded by the one before."""
        raise NotImplementedError

    def reads_as(self, other: BoundTile) -> bool:
        """Whether it reads the same words to the same places."""
        raise NotImplementedError

    def follow(self, before: BoundTile) -> None:
        """Takes the elements that `before`, which is computed just before this, has decoded, if they are the same
        and it leaves them as they are in memory."""
        kept = self.reads_as(before) and not np.may_share_memory(before._piece.target, self._piece.source)
        self.source = before if kept else None

    def follows(self, before: Sequence[BoundTile]) -> bool:
        """Whether its source elements are decoded when the only one of `before` was just computed."""
        return len(before) == 1 and self._decoded(before[0])

    def is_apart(self, others: Sequence[BoundTile]) -> bool:
        """Whether the memory of its source is none that any of them stores to."""
        return not any(each.stores_to(self._piece.source) for each in others)

    def stores_to(self, array: np.ndarray) -> bool:
        """Whether it may store to the memory of an array."""
        return np.may_share_memory(array, self._piece.target)

    def _decoded(self, held: object) -> bool:
        """Whether the source elements lie decoded where this one looks for them."""
        source = self.source
        return source is not None and held is source and source._memory is self._memory

    def _values(self, weights: ConvolutionWeights) -> Floats:
        """The tile's weights [sets, channels, terms]."""
        return weights.values if self._whole else weights.values[self._part]

    def _lanes(self, weights: ConvolutionWeights, columns: Sequence[Floats], sums: Floats, threads: int) -> list[Lane]:
        """Products and what stores their sums, by so many threads: `columns` [groups, terms, positions] of each part
        of the `sums` [parts, groups, channels, positions]."""
        values, terms, found = self._values(weights), columns[0].shape[1], list[Lane]()
        for (part, some), store in self._stores(weights, sums, threads):
            own = part if len(values) > 1 else slice(None)
            products = [partial(np.matmul, values[own, some, number * terms:(number + 1) * terms], one[part],
                                out=sums[number, part, some]) for number, one in enumerate(columns)]
            found.append((*products, store))
        return found

    def _stores(self, weights: ConvolutionWeights, sums: Floats, threads: int) -> list[tuple[Cut, LoopCall]]:
        """What stores the sums [parts, groups, channels, positions], by so many threads."""
        groups, channels, *_ = self._piece.target.shape
        positions, flat, parts = sums.shape[-1], sums.reshape(-1), (len(sums), groups * channels * sums.shape[-1])
        found = []
        for (part, some), storer in self._storers_for(threads):
            bias = weights.bias
            if bias is not None:
                bias = bias[self._part][part if len(bias) > 1 else slice(None), some]
            start = (part.start * channels + some.start) * positions
            found.append(((part, some), storer.call(flat[start:], bias, weights.stage.post, parts)))
        return found

    def _storers_for(self, threads: int) -> list[tuple[Cut, SumStorer]]:
        target = self._piece.target
        groups, channels, *_ = target.shape
        parts = cuts(groups, channels, target.size * (1 + self._terms // PRODUCTS), threads)
        if len(parts) not in self._storers:
            made = []
            for cut in parts:
                flat = Flat.of(target[cut][:, :, None])
                assert flat is not None, "all of it has a form for the loop"
                made.append((cut, SumStorer(target[cut], flat, 1, self._terms > 1)))
            self._storers[len(parts)] = made
        return self._storers[len(parts)]

    def _floats(self, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Two arrays of the workspace."""
        if self.slot:
            size = padded(prod(first))
            memory = self._workspace.slot(self.slot, size + prod(second))
            self._memory = self._workspace.memory
            return memory[:prod(first)].reshape(first), memory[size:size + prod(second)].reshape(second)
        while True:  # the second may need new memory
            arrays = self._workspace.floats(first), self._workspace.floats(second, 1)
            if np.may_share_memory(arrays[0], self._workspace.memory):
                break
        self._memory = self._workspace.memory
        return arrays


class BoundProduct(BoundTile):
    """One whose source elements are the columns of the product: numbers behind words, a product, and the stage back to
    words."""

    def __init__(self, context: TaskContext, piece: TileElements, reader: SourceReader, sets: slice, whole: bool,
                 terms: int) -> None:
        super().__init__(context, piece, sets, whole, terms)
        self._reader = reader
        self._stage: PostStage | None = None
        self._bias: Floats | None = None
        self._store: Callable[[], None] | None = None
        self._views: Views | None = None

    def reads_as(self, other: BoundTile) -> bool:
        """Whether the other one's elements are the same words."""
        return (isinstance(other, BoundProduct) and self._piece.shape == other._piece.shape
                and self._reader.alike(other._reader))

    def __call__(self, weights: ConvolutionWeights) -> bool:
        kernels, workspace = self._workspace.kernels, self._workspace
        if kernels is None or weights.stage.table is not None:
            return False
        views = self._views
        if views is None or self._memory is not workspace.memory:
            views = self._bind()
        slab, columns, sums = views
        held, workspace.held = workspace.held, None
        if not self._decoded(held) and not self._reader.finite(kernels, slab):
            return False
        if self._whole and weights.packed is not None:  # `weights.ordered`, as there is no table
            if kernels.packed(weights.packed.words, weights.packed.runs, columns.reshape(-1), sums.reshape(-1),
                              weights.assumed):
                return False
            self._bound_store(kernels, weights, sums)()
        else:
            make([Together.of(*self._lanes(weights, [columns], sums[None], self.threads))], kernels, self._report,
                 workspace.helpers)
        workspace.held = self
        return True

    def calls(self, weights: ConvolutionWeights, follows: bool) -> list[TaskCall]:
        """Elements by parts of the channels, then products and stores by parts of the results."""
        slab, columns, sums = self._views or self._bind()
        loads = [] if follows else self._reader.calls(slab, self.threads)
        packed = weights.packed
        if self._whole and packed is not None:
            return [*loads, LoopCall("packed", (packed.words, packed.runs, columns.reshape(-1), sums.reshape(-1),
                                                weights.assumed), zeros=1), self._stores(weights, sums[None], 1)[0][1]]
        return [*loads, Together.of(*self._lanes(weights, [columns], sums[None], self.threads))]

    def _bound_store(self, kernels: Kernels, weights: ConvolutionWeights, sums: Floats) -> Callable[[], None]:
        """What stores the sums, bound again where the stage is another one."""
        if self._store is None or weights.stage is not self._stage or weights.bias is not self._bias:
            self._stage, self._bias = weights.stage, weights.bias
            self._store = self._stores(weights, sums[None], 1)[0][1].bound(kernels, self._report)
        return self._store

    def _bind(self) -> Views:
        """Memory of the workspace for the elements (as they are read, and as columns) and the sums."""
        shape, (groups, channels, high, wide) = self._piece.shape, self._piece.target.shape
        slab, sums = self._floats(shape, (groups, channels, high * wide))
        self._store = None
        self._views = slab.reshape(-1), slab.reshape(groups, shape[1], -1), sums
        return self._views


def source_form(piece: TileElements) -> Flat | None:
    """The source of a tile as loops take it; None where they do not take it, or the target."""
    halves = piece.source.dtype == piece.target.dtype == np.uint16
    return Flat.of(piece.source) if halves and Flat.of(piece.target[:, :, None]) is not None else None


def bound_products(context: TaskContext, pieces: Sequence[tuple[TileElements, slice]], relu: bool, terms: int,
                   before: Sequence[BoundTile]) -> list[BoundTile]:
    """The tiles of one task, with the sets of weights each has; none where an operand has no form for the loops.
    `relu`: no source element is below zero; a sum is one of so many `terms`; `before` are those of the task just
    before."""
    found = []
    for piece, sets in pieces:
        source = source_form(piece)
        if source is None:
            return []
        reader = SourceReader(source, piece.inside, piece.shape, relu)
        found.append(BoundProduct(context, piece, reader, sets, len(pieces) == 1, terms))
    return related(found, before)


def related(tiles: Sequence[BoundTile], before: Sequence[BoundTile]) -> list[BoundTile]:
    """Tiles of one task, told which memory they use where threads share them, and an only one what is computed just
    before it, by `before`."""
    if len(tiles) == len(before) == 1:
        tiles[0].follow(before[0])
    slots = min(len(tiles), max((each.threads for each in tiles), default=1))
    for number, each in enumerate(tiles):
        if len(tiles) > 1:
            each.slot, each.threads = number * slots // len(tiles), 1
    return [*tiles]


def _arrays(calls: Sequence[TaskCall]) -> list[np.ndarray]:
    """What loops are called with."""
    arguments = (each for call in flat(calls) if isinstance(call, LoopCall) for each in call.arguments)
    return [each for each in arguments if isinstance(each, np.ndarray)]


def product_calls(products: Sequence[BoundTile], weights: ConvolutionWeights, reads: Sequence[TaskCall],
                  before: Sequence[BoundTile]) -> TaskCalls | None:
    """What computes all tiles of a task, whose weights are read by `reads`; `before` are those of the one that is
    computed just before, if it is by such calls. None without tiles, and where one of several, or the weights, are read
    where another was stored: what is done in part could not be done again."""
    if not products:
        return None
    if len(products) == 1:
        follows = products[0].follows(before)
        return TaskCalls((*reads, *products[0].calls(weights, follows)), follows)
    again = any(each.stores_to(array) for each in products for array in _arrays(reads))
    if again or weights.assumed or not all(each.is_apart(products) for each in products):
        return None
    lanes = dict[int, list[LoopCall | Callable[[], object]]]()
    for each in products:
        lanes.setdefault(each.slot, []).extend(flat(each.calls(weights, follows=False)))
    return TaskCalls((*reads, Together.of(*lanes.values())))
