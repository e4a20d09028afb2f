"""The elements under the taps of a convolution's windows, as the columns of its matrix product, straight from words.

Operands and places are as in `loops`.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, part
from openane.machine_code.halves import number
from openane.simulator.compiled.windows import calm


@part
def _zeros(out, first, last):  # type: ignore[no-untyped-def]
    for i in range(np.uint64(first), np.uint64(last)):
        out[i] = np.float32(0)


@part
def _zero_edges(out, place, lines, wide, low, end):  # type: ignore[no-untyped-def]
    """What lies before `low` and from `end` on in lines one behind the other."""
    for line in range(lines):
        at = np.uint64(place + line * wide)
        for i in range(np.uint64(low)):
            out[at + i] = np.float32(0)
        for i in range(np.uint64(end), np.uint64(wide)):
            out[at + i] = np.float32(0)


@part
def _line(source, begin, step, count, floor, out, place):  # type: ignore[no-untyped-def]
    """Numbers behind `count` words that lie `step` apart, none below `floor`, from a place of `out` on."""
    at, goal = np.uint64(begin), np.uint64(place)
    if step == 1:
        for i in range(np.uint64(count)):
            value = number(np.int32(source[at + i]))
            out[goal + i] = value if value > floor else floor
        return
    if step == 2:
        for i in range(np.uint64(count)):
            value = number(np.int32(source[at + np.uint64(2) * i]))
            out[goal + i] = value if value > floor else floor
        return
    for i in range(np.uint64(count)):
        value = number(np.int32(source[at + i * np.uint64(step)]))
        out[goal + i] = value if value > floor else floor


# decisions: loops within loops are what is compiled
@part
def _tap(source, begin, places, rows, columns, high, wide, floor, out, place):  # type: ignore[no-untyped-def]
    """One tap of one plane for all windows. `rows` and `columns` are the strides of the windows and where in the plane
    the first one's tap lies, which is below zero in the padding."""
    (down, top), (across, left) = rows, columns
    low = 0 if left >= 0 else min(wide, (across - 1 - left) // across)
    end = max(low, min(wide, (places[4] - left + across - 1) // across))
    first = 0 if top >= 0 else min(high, (down - 1 - top) // down)
    last = max(first, min(high, (places[3] - top + down - 1) // down))
    _zeros(out, place, place + first * wide)
    _zeros(out, place + last * wide, place + high * wide)
    step = across * places[9]
    start = begin + (top + first * down) * places[8] + (left + low * across) * places[9]
    goal, lines = place + first * wide, last - first
    if step == 1 and down * places[8] == wide and lines > 0:  # rows lie behind each other as windows do
        _line(source, start, 1, lines * wide - low - (wide - end), floor, out, goal + low)
        if low > 0 or end < wide:
            _zero_edges(out, goal, lines, wide, low, end)
        return
    for _ in range(lines):
        _zeros(out, goal, goal + low)
        _zeros(out, goal + end, goal + wide)
        _line(source, start, step, end - low, floor, out, goal + low)
        start += down * places[8]
        goal += wide


def _columns_loop(source, places, windows, floor, out):  # type: ignore[no-untyped-def]
    """Numbers behind the words under every tap, none below `floor`, zeros in the padding. `windows` are the kernel
    (planes, rows, columns), how many windows there are (rows, columns), their strides, where in the padded planes the
    source begins (planes, rows, columns), and the strides of `out` for groups, kernel rows, channels, kernel planes and
    kernel columns: windows lie one behind the other. Whether nothing was done, for some words are no finite
    numbers."""
    deep, tall, broad, high, wide, down, across, front, top, left, by_group, by_row, by_channel, by_plane, by_column = (
        windows)
    if not calm(source, places):
        return True
    for a in range(places[0]):
        for b in range(places[1]):
            for z in range(deep):
                base = a * by_group + b * by_channel + z * by_plane
                inside = front <= z < front + places[2]
                begin = a * places[5] + b * places[6] + (z - front) * places[7]
                for y in range(tall):
                    for x in range(broad):
                        place = base + y * by_row + x * by_column
                        if inside:
                            _tap(source, begin, places, (down, y - top), (across, x - left), high, wide, floor, out,
                                 place)
                        else:
                            _zeros(out, place, place + high * wide)
    return False


COLUMNS = TaskLoop(_columns_loop, ("uint16[::1]", "int64[::1]", "int64*15", "float32", "float32[::1]"),
                   ("boolean",))
