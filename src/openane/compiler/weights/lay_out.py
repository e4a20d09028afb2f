"""Weights put where cores read them: lanes, which are rows of a weight, side by side. A compiled loop does it where one
is at hand (`machine_code`), numpy otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial

import numpy as np

from openane.chips.coefficients import HALFWORD
from openane.machine_code.patience import Layer, patience
from openane.record_classes import dataclass

SHORT, NARROW = 16, 4
"""Rows from which on, and lanes up to which, numpy turns lanes one by one."""
LONG, FEW, PAGE = 128, 16, 4096
"""The same for more lanes that lie apart in the weights; bytes of a page of memory."""
LEAST = 1 << 13
"""Fewer weights than these numpy lays out as fast."""
LINE = 32
"""Rows that the loop does before it goes on to the next lanes: words of a line of the processor's nearest memory."""
EIGHT, FOUR = 8, 4
"""Lanes that the loop takes at once, and what their number is a multiple of."""


@dataclass(frozen=True, eq=False, slots=True)
class RowPlaces:
    """How the rows of a block of weights [lanes, inputs, taps] lie: `pitch` bytes from input to input, `within` these
    each tap, `gap` from eight lanes to the next, and `masks` at `marks`."""

    pitch: int
    gap: int = HALFWORD * EIGHT
    within: np.ndarray = field(default_factory=partial(np.zeros, 1, np.int64))
    marks: np.ndarray = field(default_factory=partial(np.zeros, 0, np.int64))
    masks: np.ndarray = field(default_factory=partial(np.zeros, 0, np.uint8))


def lay(loop: Layer, section: np.ndarray, values: np.ndarray, shape: tuple[int, int], origins: np.ndarray,
        starts: np.ndarray, rows: RowPlaces) -> None:
    """Puts blocks of weights of a `shape` [lanes, inputs times taps], at `origins` among these, into bytes (uint8) from
    `starts` on."""
    loop(section, values.reshape(-1).view(np.uint16), origins, starts, rows.within, rows.marks, rows.masks,
         np.empty(LINE, np.int64), (*shape, rows.gap, rows.pitch))


def loop_for(values: np.ndarray, lanes: Sequence[int]) -> Layer | None:
    """The loop for weights of so many lanes in a block; None where numpy is to lay them out."""
    if values.size < LEAST or all(count % FOUR for count in lanes) or not values.flags.c_contiguous:
        return None
    return patience().layer(values.size)


def turn(target: np.ndarray, source: np.ndarray) -> None:
    """target = source, both [groups, rounds, cores, rows, lanes], a lane a row of the source. Few lanes are written one
    after the other, so that numpy's loops are as long as rows, and so are lanes a multiple of pages apart, as the
    nearest cache has room for few of these; more lanes that lie side by side in the source, too, are copied at once."""
    (rows, lanes), step = source.shape[-2:], source.strides[-1]
    if lanes > NARROW and step == source.itemsize:
        together = f"V{lanes * step}"
        target.view(together)[...] = source.view(together)
        return
    if rows < SHORT or (lanes > NARROW and (rows < LONG or (lanes > FEW and step % PAGE))):
        target[...] = source
        return
    for lane in range(lanes):
        target[..., lane] = source[..., lane]
