"""Tiles whose source elements are the columns of their matrix product, in fast arithmetic: everything a run needs is
bound once, and elements the task before has left decoded are not decoded again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from openane.simulator.arithmetic.half import Floats
from openane.simulator.calls import LoopCall, TaskCalls
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat, Kernels
from openane.simulator.post import PostStage
from openane.simulator.stores import SourceReader, SumStorer
from openane.simulator.tiles import TileElements
from openane.simulator.weights import ConvolutionWeights

Views = tuple[Floats, Floats, Floats]


class BoundProduct:
    """One tile: numbers behind words, a product, and the stage back to words."""

    def __init__(self, context: TaskContext, piece: TileElements, reader: SourceReader, storer: SumStorer,
                 sets: slice, whole: bool) -> None:
        """`sets` are those of the weights that the tile's groups have; `whole`: it is the only tile."""
        self._workspace, self._report, self._piece = context.workspace, context.report, piece
        self._reader, self._storer = reader, storer
        self._part = sets, slice(*piece.tile.channels)
        self._whole = whole
        self._stage: PostStage | None = None
        self._bias: Floats | None = None
        self._store: Callable[[], None] | None = None
        self._memory: np.ndarray | None = None
        self._views: Views | None = None
        self.source: BoundProduct | None = None
        """The one before, where that leaves the elements of this one's source decoded."""

    def follow(self, before: BoundProduct) -> None:
        """Takes the elements that `before`, which is computed just before this, has decoded, if they are the same
        and it leaves them as they are in memory."""
        same = self._piece.shape == before._piece.shape and self._reader.alike(before._reader)
        kept = same and not np.may_share_memory(before._piece.target, self._piece.source)
        self.source = before if kept else None

    def __call__(self, weights: ConvolutionWeights) -> bool:
        """Finite weights. False, and nothing done, where a source element is not finite or the stage has a table."""
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
        else:
            np.matmul(weights.values if self._whole else weights.values[self._part], columns, out=sums)
        self._bound_store(kernels, weights, sums)()
        workspace.held = self
        return True

    def calls(self, weights: ConvolutionWeights, follows: bool) -> list[LoopCall | Callable[[], object]]:
        """What does the same in memory that stays, also where the workspace has other memory later. `follows`: source
        elements are decoded by the one before."""
        slab, columns, sums = self._views or self._bind()
        loads = [] if follows else self._reader.calls(slab)
        stores = self._storing(weights, sums)
        packed = weights.packed
        if self._whole and packed is not None:
            return [*loads, LoopCall("packed", (packed.words, packed.runs, columns.reshape(-1), sums.reshape(-1),
                                                weights.assumed), zeros=1), stores]
        values = weights.values if self._whole else weights.values[self._part]
        return [*loads, partial(np.matmul, values, columns, out=sums), stores]

    def follows(self, before: Sequence[BoundProduct]) -> bool:
        """Whether its source elements are decoded when the only one of `before` was just computed."""
        return len(before) == 1 and self._decoded(before[0])

    def is_apart(self, others: Sequence[BoundProduct]) -> bool:
        """Whether the memory of its source is none that any of them stores to."""
        return not any(np.may_share_memory(self._piece.source, each._piece.target) for each in others)

    def _decoded(self, held: object) -> bool:
        """Whether the source elements lie decoded where this one looks for them."""
        source = self.source
        return source is not None and held is source and source._memory is self._memory

    def _bound_store(self, kernels: Kernels, weights: ConvolutionWeights, sums: Floats) -> Callable[[], None]:
        """What stores the sums, bound again where the stage is another one."""
        if self._store is None or weights.stage is not self._stage or weights.bias is not self._bias:
            self._stage, self._bias = weights.stage, weights.bias
            self._store = self._storing(weights, sums).bound(kernels, self._report)
        return self._store

    def _storing(self, weights: ConvolutionWeights, sums: Floats) -> LoopCall:
        """The call that stores the sums."""
        bias = None if weights.bias is None else weights.bias[self._part]
        return self._storer.call(sums, bias, weights.stage.post)

    def _bind(self) -> Views:
        """Memory of the workspace for the elements (as they are read, and as columns) and the sums."""
        tile, shape = self._piece.tile, self._piece.shape
        high, wide = self._piece.target.shape[2:]
        channels = tile.channels[1] - tile.channels[0]
        sums = (tile.count, channels, high * wide)
        while True:  # the second may need new memory
            slab = self._workspace.floats(shape)
            found = self._workspace.floats(sums, 1)
            if np.may_share_memory(slab, self._workspace.memory):
                break
        self._memory, self._store = self._workspace.memory, None
        self._views = slab.reshape(-1), slab.reshape(tile.count, shape[1], -1), found
        return self._views


def bound_products(context: TaskContext, pieces: Sequence[tuple[TileElements, slice]], relu: bool, limited: bool,
                   before: Sequence[BoundProduct]) -> list[BoundProduct]:
    """The tiles of one task, with the sets of weights each has; none where an operand has no form for the loops.
    `relu`: no source element is below zero; `limited`: sums have the accumulator's range; `before` are those of the
    task just before."""
    found = []
    for piece, sets in pieces:
        halves = piece.source.dtype == piece.target.dtype == np.uint16
        source, target = (Flat.of(piece.source), Flat.of(piece.target[:, :, None])) if halves else (None, None)
        if source is None or target is None:
            return []
        reader = SourceReader(source, piece.inside, piece.shape, relu)
        found.append(BoundProduct(context, piece, reader, SumStorer(piece.target, target, 1, limited), sets,
                                  len(pieces) == 1))
    if len(found) == len(before) == 1:
        found[0].follow(before[0])
    return found


def product_calls(products: Sequence[BoundProduct], weights: ConvolutionWeights, reads: Sequence[LoopCall],
                  before: Sequence[BoundProduct]) -> TaskCalls | None:
    """What computes all tiles of a task, whose weights are read by `reads`; `before` are those of the one that is
    computed just before, if it is by such calls. None without tiles, and where one of several is read where another was
    stored: what is done in part could not be done again."""
    alone = len(products) == 1
    if not products or not (alone or (not weights.assumed and all(each.is_apart(products) for each in products))):
        return None
    follows = alone and products[0].follows(before)
    return TaskCalls((*reads, *(call for each in products for call in each.calls(weights, follows))), follows)
