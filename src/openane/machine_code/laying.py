"""Weights laid out for cores: rows of a block become lanes that lie side by side, eight at a time."""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, four_turned, part, turned
from openane.machine_code.rounding import ROUND
from openane.machine_code.unpacking import UNPACK, UNSKIP
from openane.machine_code.widening import WIDEN

EIGHT = 8


@part
def _lay_row(section, start, gap, values, first, step, lanes):  # type: ignore[no-untyped-def]
    for lane in range(lanes):
        place = np.uint64(start + lane // EIGHT * gap + lane % EIGHT * 2)
        word = values[np.uint64(first + lane * step)]
        section[place] = word & 255
        section[place + np.uint64(1)] = word >> 8


@part
def _mask(section, start, end, pitch, marks, masks):  # type: ignore[no-untyped-def]
    for place in range(start, end, pitch):
        for mark in range(marks.size):
            section[np.uint64(place + marks[mark])] = masks[mark]


def _lay_loop(section, values, origins, starts, within, marks, masks, places, sizes):  # type: ignore[no-untyped-def]
    """Lays blocks of words [lanes, inputs, taps], which begin at `origins` of `values`, into the bytes of `section`:
    from `starts` of the block on, `pitch` bytes for each input, `within` these for a tap, two bytes for each lane of
    eight, `gap` for each eight. Every input has `masks`, too, at `marks`. `sizes` are lanes, a multiple of four, rows
    (inputs times taps), gap and pitch; `places` has room for rows that are done before the next lanes are."""
    lanes, rows, gap, pitch = sizes
    many, taps, line = lanes - lanes % EIGHT, within.size, places.size
    for block in range(starts.size):
        start, origin = starts[block], origins[block]
        base, tap = start, 0
        for done in range(0, rows, line):
            count = min(rows - done, line)
            for row in range(count):
                places[row] = base + within[tap]
                tap += 1
                if tap == taps:
                    tap = 0
                    base += pitch
            whole = count - count % EIGHT
            for lane in range(0, many, EIGHT):
                for row in range(0, whole, EIGHT):
                    turned(section, lane // EIGHT * gap, places, row, values, origin + lane * rows + done + row, rows)
            if many < lanes:
                for row in range(0, whole, EIGHT):
                    four_turned(section, many // EIGHT * gap, places, row, values, origin + many * rows + done + row,
                                rows)
            for row in range(whole, count):
                _lay_row(section, places[row], gap, values, origin + done + row, rows, lanes)
        if marks.size:
            _mask(section, start, base, pitch, marks, masks)


LAY = TaskLoop(_lay_loop, ("uint8[::1]", "uint16[::1]", "int64[::1]", "int64[::1]", "int64[::1]", "int64[::1]",
                           "uint8[::1]", "int64[::1]", "int64*4"))
LOOPS = (ROUND, LAY, WIDEN, UNPACK, UNSKIP)
"""What a compilation rounds and lays out weights with, what makes float32 of them again, and what takes them out of
streams when a program is loaded."""
