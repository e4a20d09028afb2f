"""Index vectors as few strided pieces: what a gather or scatter with constant indices costs, and how it is copied.

A piece maps positions of a result to positions of a source by an affine rule over up to two loops, which is what a
strided copy can do: ranges, ranges with a step, repeats (step 0), reversals (negative step), and any of these repeated
periodically.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

LONGEST_PERIOD = 64
"""Periods longer than this are not looked for."""
SHORT = 16
"""Rows of fewer elements waste most of the 64 bytes they take."""
REPEATS = 3
"""More repeats than this are made from each other."""
MAXIMUM_COPIES = 2048
"""Copies one gather or scatter may be unrolled into."""


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
class Piece:
    """Result positions place + sum(i * loop.place) taken from source + sum(i * loop.source)."""

    place: int
    source: int
    loops: tuple[Loop, ...]

    def copies(self) -> int:
        """Strided copies this piece takes, at most."""
        return prod(loop.copies for loop in self.loops)

    def unrolled(self) -> Iterator[Piece]:
        """The same as pieces whose loops all go forward, or are long repeats."""
        for loop in self.loops:
            if not loop.forward and not loop.doubled:
                rest = tuple(other for other in self.loops if other is not loop)
                for i in range(loop.count):
                    yield from Piece(self.place + i * loop.place, self.source + i * loop.source, rest).unrolled()
                return
        yield self


def pieces(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None = None) -> tuple[Piece, ...]:
    """Pieces that together move source position indices[i] to result position places[i] (i when left out)."""
    return tuple(_pieces(indices, places))


def few(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None = None) -> bool:
    """Whether these moves take at most MAXIMUM_COPIES strided copies."""
    total = 0
    for piece in _pieces(indices, places):
        total += piece.copies()
        if total > MAXIMUM_COPIES:
            return False
    return True


def _pieces(indices: Sequence[int] | np.ndarray, places: Sequence[int] | np.ndarray | None) -> Iterator[Piece]:
    """Greedy: at each position the period that covers most elements per copy is taken."""
    count = len(indices)
    pairs = np.stack([np.arange(count) if places is None else np.asarray(places, np.int64),
                      np.asarray(indices, np.int64)], axis=1)
    start = 0
    while start < count:
        period, length = _best_period(pairs[start:])
        outer: tuple[Loop, ...] = ()
        if length > period:
            place, source = (int(step) for step in pairs[start + period] - pairs[start])
            outer = (Loop(length // period, place, source),)
        runs = _runs(pairs[start:start + period].tolist())
        yield from (Piece(run.place, run.source, (*outer, *run.loops)) for run in runs)
        start += length


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


def _best_period(pairs: np.ndarray) -> tuple[int, int]:
    """(period, elements covered) of the periodic stretch at the start that covers most elements per copy."""
    best, score = (1, 1), (1.0, False)
    longest = min(LONGEST_PERIOD, len(pairs) // 2)
    head = pairs[:2 * longest].tolist()
    for period in range(1, longest + 1):
        step = [b - a for a, b in zip(head[0], head[period], strict=True)]
        if any([b - a for a, b in zip(head[i], head[i + period], strict=True)] != step for i in range(period)):
            continue
        different = np.flatnonzero((pairs[period:] - pairs[:-period] != step).any(axis=1))
        same = int(different[0]) if len(different) else len(pairs) - period
        length = (same + period) // period * period
        cost = Loop(length // period, *step).copies * sum(run.copies() for run in _runs(head[:period]))
        backwards = period == 1 and step[1] < 0  # costs as much as its elements apart, but can be made in two passes
        if (length / cost, backwards) > score:
            best, score = (period, length), (length / cost, backwards)
        if length == len(pairs) and period == 1:
            break
    return best


def _runs(pairs: list[list[int]]) -> list[Piece]:
    """Maximal arithmetic runs of a short stretch of (place, source)."""
    found: list[Piece] = []
    start = 0
    while start < len(pairs):
        place, source = pairs[start]
        stop, steps = start + 1, (0, 0)
        if stop < len(pairs):
            steps = pairs[stop][0] - place, pairs[stop][1] - source
            while stop < len(pairs) and (pairs[stop][0] - pairs[stop - 1][0],
                                         pairs[stop][1] - pairs[stop - 1][1]) == steps:
                stop += 1
        found.append(Piece(place, source, (Loop(stop - start, *steps),) if stop - start > 1 else ()))
        start = stop
    return found
