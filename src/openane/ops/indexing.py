"""Index vectors as few strided pieces: what a gather or scatter with constant indices costs, and how it is copied.

A piece maps positions of a result to positions of a source by an affine rule over up to two loops, which is what a
strided copy can do: ranges, ranges with a step, repeats (step 0), reversals (negative step), and any of these repeated
periodically.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt, prod

import numpy as np

from openane.record_classes import dataclass

LONGEST_PERIOD = 64
"""Periods longer than this are not looked for."""
SHORT = 16
"""Rows of fewer elements waste most of the 64 bytes they take."""
REPEATS = 3
"""More repeats than this are made from each other."""
MAXIMUM_COPIES = 2048
"""Copies one gather or scatter may be unrolled into."""
REVERSAL = 16
"""Longer reversals take two passes, blocks and what is in them, instead of one copy per element."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`count` elements, `place` positions apart in the result and `source` apart where they come from."""

    count: int
    place: int
    source: int

    @property
    def forward(self) -> bool:
        """Whether strides can express the loop: both sides go up."""
        return self.place > 0 and self.source > 0

    @property
    def doubled(self) -> bool:
        """Whether the loop is a long repeat, which is made from itself, twice as much with every copy."""
        return self.source == 0 and self.count > REPEATS

    @property
    def copies(self) -> int:
        """Strided copies the loop takes."""
        return 1 if self.forward else 1 + (self.count - 1).bit_length() if self.doubled else self.count


@dataclass(frozen=True, slots=True)
class IndexedPiece:
    """Result positions place + sum(i * loop.place) taken from source + sum(i * loop.source)."""

    place: int
    source: int
    loops: tuple[Loop, ...]

    def copies(self) -> int:
        """Strided copies this piece takes, at most."""
        return prod(loop.copies for loop in self.loops)

    @property
    def backwards(self) -> bool:
        """Whether it is one long reversal."""
        return len(self.loops) == 1 and self.loops[0].place > 0 > self.loops[0].source and \
            self.loops[0].count > REVERSAL

    def cost(self) -> int:
        """Strided copies this piece takes where long reversals are made in two passes."""
        if not self.backwards:
            return self.copies()
        count = self.loops[0].count
        size = block_size(count)
        return count // size + size + count % size + 1

    def unrolled(self) -> Iterator[IndexedPiece]:
        """The same as pieces whose loops all go forward, or are long repeats."""
        for loop in self.loops:
            if not loop.forward and not loop.doubled:
                rest = tuple(other for other in self.loops if other is not loop)
                for i in range(loop.count):
                    yield from IndexedPiece(self.place + i * loop.place, self.source + i * loop.source, rest).unrolled()
                return
        yield self


def block_size(count: int) -> int:
    """Elements of the blocks in which so many are reversed with fewest copies."""
    return min(range(2, isqrt(count) + 2), key=lambda size: count // size + size + count % size)


def pieces(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None = None) -> tuple[IndexedPiece,
                                                                                                           ...]:
    """Pieces that together move source position indices[i] to result position places[i] (i when left out)."""
    return tuple(_pieces(indices, places))


def few(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None = None) -> bool:
    """Whether these moves take at most MAXIMUM_COPIES strided copies."""
    total = 0
    for piece in _pieces(indices, places):
        total += piece.cost()
        if total > MAXIMUM_COPIES:
            return False
    return True


def _pieces(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None) -> Iterator[IndexedPiece]:
    """Greedy: at each position the period that covers most elements per copy is taken."""
    count = len(indices)
    pairs = np.stack([np.arange(count) if places is None else np.asarray(places, np.int64),
                      np.asarray(indices, np.int64)], axis=1)
    steps = _numbered(np.diff(pairs, axis=0)) if count > 1 else pairs[:0, 0]
    start = 0
    while start < count:
        period, length = _best_period(pairs, steps, start)
        outer: tuple[Loop, ...] = ()
        if length > period:
            place, source = (int(step) for step in pairs[start + period] - pairs[start])
            outer = (Loop(length // period, place, source),)
        runs = _runs(pairs[start:start + period].tolist())
        yield from (IndexedPiece(run.place, run.source, (*outer, *run.loops)) for run in runs)
        start += length


def _numbered(rows: np.ndarray) -> np.ndarray:
    """Numbers that are equal where rows of two integers are."""
    first, second = (np.unique(rows[:, column], return_inverse=True)[1].ravel() for column in (0, 1))
    return np.asarray(first * (int(second.max()) + 1) + second)


def cut_order(shape: Sequence[int], cut: Sequence[int]) -> tuple[int, ...]:
    """Storage order, outermost first, for a tensor whose dimensions `cut` will be cut, the first of them next: rows
    along the last dimension, or else the largest, that is not cut, or if those are short along one cut later. It ends
    with -1 when there is none: every element has a cell of its own."""
    rank = len(shape)
    free = [d for d in range(rank) if d not in cut and shape[d] > 1]
    if rank - 1 in free and shape[-1] >= SHORT:
        return tuple(range(rank))
    row = max(free, key=lambda d: shape[d], default=-1)
    if row == -1 or shape[row] < SHORT:
        others = (d for d in range(rank) if d != cut[0] and shape[d] > 1)
        row = max(others, key=lambda d: shape[d], default=-1)
    return (*(d for d in range(rank) if d != row), row)


def _best_period(pairs: np.ndarray, steps: np.ndarray, start: int) -> tuple[int, int]:
    """(period, elements covered) of the periodic stretch from `start` on that covers most elements per copy. `steps`
    has equal numbers where the steps from one pair to the next are equal."""
    best, score = (1, 1), (1.0, False)
    left = len(pairs) - start
    longest = min(LONGEST_PERIOD, left // 2)
    possible = np.flatnonzero(steps[start + 2:start + longest + 1] == steps[start]) + 2 if longest > 1 else ()
    for period in (*range(1, min(longest, 1) + 1), *map(int, possible)):
        same = 1 + _alike(steps, start, period)
        if same < period:
            continue
        length = (same + period) // period * period
        place, source = (int(step) for step in pairs[start + period] - pairs[start])
        runs = _runs(pairs[start:start + period].tolist())
        cost = Loop(length // period, place, source).copies * sum(run.copies() for run in runs)
        backwards = period == 1 and source < 0  # costs as much as its elements apart, but can be made in two passes
        if (length / cost, backwards) > score:
            best, score = (period, length), (length / cost, backwards)
        if length == left and period == 1:
            break
    return best


def _alike(steps: np.ndarray, start: int, period: int) -> int:
    """How many steps from `start` on are equal to those a period later, one after the other."""
    place, size, end = start, LONGEST_PERIOD, len(steps) - period
    while place < end:
        stop = min(end, place + size)
        different = np.flatnonzero(steps[place:stop] != steps[place + period:stop + period])
        if len(different):
            return place + int(different[0]) - start
        place, size = stop, 2 * size
    return end - start


def _runs(pairs: list[list[int]]) -> list[IndexedPiece]:
    """Maximal arithmetic runs of a short stretch of (place, source)."""
    found: list[IndexedPiece] = []
    start = 0
    while start < len(pairs):
        place, source = pairs[start]
        stop, steps = start + 1, (0, 0)
        if stop < len(pairs):
            steps = pairs[stop][0] - place, pairs[stop][1] - source
            while stop < len(pairs) and (pairs[stop][0] - pairs[stop - 1][0],
                                         pairs[stop][1] - pairs[stop - 1][1]) == steps:
                stop += 1
        found.append(IndexedPiece(place, source, (Loop(stop - start, *steps),) if stop - start > 1 else ()))
        start = stop
    return found
