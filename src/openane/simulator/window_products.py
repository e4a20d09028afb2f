"""Tiles of a convolution with windows of more than one element, in fast arithmetic, everything bound: the columns
straight from words, their products, and the stage back to words.

With a row stride of 1 the columns are those of one kernel row, and every kernel row is a product of its own: see
`convolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import Floats
from openane.simulator.calls import LoopCall, TaskCall, Together, make
from openane.simulator.context import TaskContext
from openane.simulator.kernels import Flat
from openane.simulator.products import BoundTile, related, source_form
from openane.simulator.threads import Cut, cuts
from openane.simulator.tiles import TileElements, Triple
from openane.simulator.weights import ConvolutionWeights

MOST_ROWS = 8
"""Kernel rows whose sums are kept beside each other at most."""


@dataclass(frozen=True, slots=True)
class ProductWindows:
    """Kernel and stride of a convolution (planes, rows, columns), whether every kernel row is a product of its own,
    and whether source elements are not below zero (`relu`)."""

    kernel: Triple
    stride: Triple
    by_row: bool
    relu: bool

    @property
    def bindable(self) -> bool:
        """Whether every source element is under some tap, and not too many sums are kept."""
        return all(stride <= taps for stride, taps in zip(self.stride, self.kernel, strict=True)) and not (
            self.by_row and self.kernel[1] > MOST_ROWS)

    @property
    def products(self) -> int:
        """How many products a sum is made of."""
        return self.kernel[1] if self.by_row else 1


class WindowProduct(BoundTile):
    """One tile."""

    def __init__(self, context: TaskContext, piece: TileElements, windows: ProductWindows, sets: slice,
                 whole: bool) -> None:
        """`sets` and `whole` are as for `BoundTile`."""
        super().__init__(context, piece, sets, whole, piece.shape[1] * prod(windows.kernel))
        self._views: tuple[Floats, Floats] | None = None
        groups, channels, *_ = piece.shape
        deep, tall, broad = windows.kernel
        high, self._wide = piece.target.shape[2:]
        rows = high + tall - 1 if windows.by_row else high
        taps = (deep, 1 if windows.by_row else tall, broad)
        places = rows * self._wide
        terms = channels * prod(taps)  # of one product
        by_channel = deep * broad * places
        self._steps = (terms * places, channels * by_channel, by_channel, broad * places, places)
        starts = (0, 0, 0) if piece.inside is None else tuple(part.start for part in piece.inside[2:])
        self._numbers = (*taps, rows, self._wide, *windows.stride[1:], *starts, *self._steps)
        self._floor = np.float32(0 if windows.relu else -np.inf)
        self._columns = groups, terms, places
        self._sums = windows.products, groups, piece.target.shape[1], high * self._wide
        self._loads: dict[int, list[tuple[Cut, Flat, np.ndarray]]] = {}

    def __call__(self, weights: ConvolutionWeights) -> bool:
        kernels, workspace = self._workspace.kernels, self._workspace
        if kernels is None or weights.stage.table is not None:
            return False
        if self._memory is not workspace.memory:
            self._views = None
        follows = self._decoded(workspace.held)
        workspace.held = None
        if not make(self.calls(weights, follows), kernels, self._report, workspace.helpers):
            return False
        workspace.held = self
        return True

    def calls(self, weights: ConvolutionWeights, follows: bool) -> list[TaskCall]:
        """Columns by parts of the channels, then products and stores by parts of the results."""
        if self._views is None:
            self._views = self._floats(self._columns, self._sums)
        columns, sums = self._views
        reads = [] if follows else [Together.of(*([each] for each in self._reads(columns, self.threads)))]
        return [*reads, Together.of(*self._lanes(weights, self._rows_of(columns), sums, self.threads))]

    def reads_as(self, other: BoundTile) -> bool:
        """Whether the other one's windows are the same, on the same words."""
        if not isinstance(other, WindowProduct):
            return False
        first, second = self._piece.source, other._piece.source
        return (first.ctypes.data, first.shape, first.strides, self._numbers, self._floor) == (
            second.ctypes.data, second.shape, second.strides, other._numbers, other._floor)

    def _rows_of(self, columns: Floats) -> list[Floats]:
        """What each product takes of the columns."""
        width = self._sums[-1]
        return [columns[..., number * self._wide:number * self._wide + width] for number in range(self._sums[0])]

    def _reads(self, columns: Floats, threads: int) -> list[LoopCall]:
        """What reads the columns, by so many threads."""
        if threads not in self._loads:
            source, made = self._piece.source, []
            groups, channels, *_ = source.shape
            for cut in cuts(groups, channels, columns.size, threads):
                flat = Flat.of(source[cut])
                assert flat is not None, "all of it has a form for the loop"
                made.append((cut, flat, np.array([*flat.shape, *flat.strides], np.int64)))
            self._loads[threads] = made
        flat_columns, (by_group, _, by_channel, *_) = columns.reshape(-1), self._steps
        return [LoopCall("columns", (flat.elements, places, self._numbers, self._floor,
                                     flat_columns[part.start * by_group + some.start * by_channel:]), zeros=1)
                for (part, some), flat, places in self._loads[threads]]


def window_products(context: TaskContext, pieces: Sequence[tuple[TileElements, slice]],
                    windows: ProductWindows, before: Sequence[BoundTile]) -> list[BoundTile]:
    """The tiles of one task, with the sets of weights each has; none where windows or an operand have no form for the
    loops. `before` are those of the task just before."""
    if not windows.bindable or any(source_form(piece) is None for piece, _ in pieces):
        return []
    return related([WindowProduct(context, piece, windows, sets, len(pieces) == 1) for piece, sets in pieces], before)
