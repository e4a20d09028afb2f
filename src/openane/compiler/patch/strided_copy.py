"""Packing one weight as a few strided copies of fp16 numbers into the constant section.

`weights.pack` does the same without knowing the route beforehand. Here the strides depend on the layout alone, and are
worked out once for all later weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openane.chips import Limits
from openane.chips.coefficients import HALFWORD, CoreRun, SparseFormat
from openane.compiler.weights.layout_records import ConstantForm, ConstantPiece, WeightView
from openane.engine import Geometry
from openane.record_classes import dataclass
from openane.rounding import round_up


@dataclass(frozen=True, slots=True)
class StridedCopy:
    """A copy of halfwords from one array to another: the shape, and on both sides the first byte and the strides in
    bytes."""

    shape: tuple[int, ...]
    target: int
    target_strides: tuple[int, ...]
    source: int
    source_strides: tuple[int, ...]

    def apply(self, section: np.ndarray, halves: np.ndarray, start: int = 0) -> None:
        """Copies from a contiguous fp16 array, counted from its element `start`, to a section of bytes."""
        np.ndarray(self.shape, "<f2", section, self.target, self.target_strides)[...] = np.ndarray(
            self.shape, "<f2", halves, self.source + HALFWORD * start, self.source_strides)

    def follows(self, before: StridedCopy, first: StridedCopy, second: StridedCopy) -> bool:
        """Whether it continues a row of moves that begins with two others, `before` its last so far."""
        alike = (self.shape, self.target_strides, self.source_strides) == \
            (first.shape, first.target_strides, first.source_strides)
        return alike and (self.target - before.target, self.source - before.source) == \
            (second.target - first.target, second.source - first.source)


@dataclass(frozen=True, slots=True)
class StridedCopies:
    """The copies that fill one piece: of its weights, and of its biases."""

    weights: tuple[StridedCopy, ...]
    biases: tuple[StridedCopy, ...] = ()


def strided_copies(piece: ConstantPiece, weights: WeightView, limits: Limits) -> StridedCopies:
    """The copies that fill a piece from the elements `weights` sees. Those of a zero-skipping piece hold as long as no
    weight is zero; there are none where some weights are zero now."""
    if piece.form is ConstantForm.SPARSE:
        return _sparse(piece, weights, limits)
    if piece.form is ConstantForm.ROWS:
        row = limits.memory_row(weights.shape[1] * HALFWORD)
        source = HALFWORD * weights.offset
        return StridedCopies((StridedCopy(weights.shape, piece.offset, (row, HALFWORD), source,
                                          _bytes(weights.strides)),))
    groups, channels, rows = weights.shape
    coefficients = limits.coefficients
    form = coefficients.dense(Geometry(groups, channels, rows), piece.lanes, piece.bias is not None,
                              coefficients.table.size if piece.table else 0)
    offsets = {core: offset for core, offset, _ in form.streams}
    bodies, heads = [], []
    for run in form.runs:
        place, row = piece.offset + offsets[run.core] + form.head + HALFWORD * run.place, HALFWORD * run.width
        outer = HALFWORD * form.planes[run.core], (rows + form.bias) * row, run.spacing
        extents = groups, run.rounds, run.cores
        bodies.append(StridedCopy((*extents, rows, run.count), place + row * form.bias, (*outer, row, HALFWORD),
                                  *_taken(weights, run)))
        if piece.bias is not None:
            heads.append(StridedCopy((*extents, run.count), place, (*outer, HALFWORD), *_taken(piece.bias, run)))
    return StridedCopies(tuple(bodies), tuple(heads))


def _sparse(piece: ConstantPiece, weights: WeightView, limits: Limits) -> StridedCopies:
    """Without zeros every row of a block has the same places; see weights.pack.pack_sparse."""
    groups, channels, inputs, high, wide = weights.shape
    of_group, of_channel, of_input, of_row, of_column = _bytes(weights.strides)
    form = limits.coefficients
    sparse, table = form.sparse, form.table.size if piece.table else 0
    taps = sparse.taps(high, wide)
    starts = dict.fromkeys(range(form.cores), 0) | {core: piece.offset + start for core, start, _ in piece.streams}
    cursors = dict.fromkeys(range(form.cores), table)
    bodies: dict[tuple[int, int, int], list[StridedCopy]] = {}
    heads: list[StridedCopy] = []
    for group in range(groups):
        first = 0
        for core, width, count in form.blocks(channels, piece.lanes):
            size, runs = _row(taps, width, count, sparse)
            place = starts[core] + cursors[core]
            seen = HALFWORD * weights.offset + group * of_group + first * of_channel
            if piece.bias is not None:
                heads.append(StridedCopy((count,), place, (HALFWORD,), *_part(piece.bias, group, first)))
                place += HALFWORD * width
            for number, (tap, lane, lanes, byte) in enumerate(runs):
                source = seen + lane * of_channel + tap // wide * of_row + tap % wide * of_column
                bodies.setdefault((width, count, number), []).append(StridedCopy(
                    (inputs, lanes), place + sparse.length + byte, (size, HALFWORD), source, (of_input, of_channel)))
            cursors[core] = place - starts[core] + sparse.length + inputs * size
            first += count
        cursors = {core: round_up(cursor, form.alignment) for core, cursor in cursors.items()}
    if any(cursors[core] != size for core, _, size in piece.streams):
        return StridedCopies(())
    return StridedCopies(tuple(move for each in bodies.values() for move in joined(each)), tuple(joined(heads)))


def _row(taps: Sequence[int | None], lanes_of_block: int, count: int,
         form: SparseFormat) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Bytes of an input's row without zeros, and (tap, first lane, lanes, byte) of what lies together in it: behind a
    mask for several values each."""
    runs, byte, value = [], 0, 0
    width, group = form.width(lanes_of_block), form.values
    for tap in taps:
        lane = 0
        while lane < width:
            byte += form.mask if value % group == 0 else 0
            room = min(group - value % group, width - lane)
            lanes = 0 if tap is None else max(0, min(count - lane, room))
            if tap is not None and lanes:
                runs.append((tap, lane, lanes, byte))
            byte, value, lane = byte + HALFWORD * lanes, value + room, lane + room
    return byte, runs


def joined(moves: Sequence[StridedCopy]) -> list[StridedCopy]:
    """Moves that follow each other at equal distances as one with one more dimension, three times over: cores, rounds
    and groups."""
    found = list(moves)
    for _ in range(3):
        found = list(_joined_once(found))
    return found


def _joined_once(moves: Sequence[StridedCopy]) -> Iterator[StridedCopy]:
    start = 0
    while start < len(moves):
        first, end = moves[start], start + 1
        while end < len(moves) and moves[end].follows(moves[end - 1], first, moves[start + 1]):
            end += 1
        if end - start > 1:
            second = moves[start + 1]
            yield StridedCopy((end - start, *first.shape), first.target,
                              (second.target - first.target, *first.target_strides), first.source,
                              (second.source - first.source, *first.source_strides))
        else:
            yield first
        start = end


def _part(view: WeightView, group: int, first: int) -> tuple[int, tuple[int, ...]]:
    """First byte and stride of the channels from `first` on of a group of [groups, channels]."""
    of_group, of_channel = _bytes(view.strides)
    return HALFWORD * view.offset + group * of_group + first * of_channel, (of_channel,)


def _taken(view: WeightView, run: CoreRun) -> tuple[int, tuple[int, ...]]:
    """First byte and strides of [groups, rounds, cores, ..., count] of [groups, channels, ...]; see packing.CoreRun."""
    group, channel, *rest = view.strides
    first = HALFWORD * (view.offset + run.first * channel)
    return first, _bytes((group, run.turn * run.width * channel, run.width * channel, *rest, channel))


def _bytes(strides: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(HALFWORD * step for step in strides)
