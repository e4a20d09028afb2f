"""The loops of tasks. Operands are flat arrays of fp16 words; `places` are five extents, then five strides in elements
of every operand, in the order of the arguments.

Sources that hold NaN or infinities are rare: loops look at the largest magnitude, and go over a row again if they must.
Results are (smallest word, largest word, largest as a signed number), as `half.survey` has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openane.machine_code.described import TaskLoop, give_back, part, rows_of
from openane.machine_code.halves import (
    INFINITE,
    MAGNITUDE,
    number,
    special_number,
    to_word,
)
from openane.simulator.compiled.words import largest, survey

INFINITY = np.float32(np.inf)
WIDE = 4096              # columns of a row finished at a time: they stay in the cache
COLUMNS, CHANNELS = 64, 16  # of a block that is turned


# decisions: loops within loops are what is compiled
def _load_loop(source, places, floor, out):  # type: ignore[no-untyped-def]
    """Numbers behind words, none below `floor`, in `out`. Counts of NaN and infinities among the words."""
    width, step, across = places[4], places[9], places[14]
    nan, infinite = 0, 0
    for a in range(places[0]):
        for b in range(places[1]):
            for c in range(places[2]):
                for d in range(places[3]):
                    words = source[a * places[5] + b * places[6] + c * places[7] + d * places[8]:]
                    row = out[a * places[10] + b * places[11] + c * places[12] + d * places[13]:]
                    top: Any = np.int32(0)
                    if step == 1 and across == 1:
                        for i in range(width):
                            value = number(np.int32(words[i]))
                            row[i] = value if value > floor else floor
                        top = largest(words, width)
                    else:
                        for i in range(width):
                            word = np.int32(words[i * step])
                            top = max(top, np.int32(word & MAGNITUDE))
                            value = number(word)
                            row[i * across] = value if value > floor else floor
                    if top >= INFINITE:
                        for i in range(width):
                            word = np.int32(words[i * step])
                            size = np.int32(word & MAGNITUDE)
                            nan += int(size > INFINITE)
                            infinite += int(size == INFINITE)
                            value = special_number(word)
                            row[i * across] = value if value > floor else floor
    return nan, infinite


def _gather_loop(source, first, step, order, out):  # type: ignore[no-untyped-def]
    """Numbers behind the words of channels that begin at `first` and lie `step` apart, their rows in `order`; whether
    some are not finite."""
    top: Any = np.int32(0)
    rows = order.size
    for channel in range(first.size):
        begin, pace, goal = first[channel], step[channel], np.uint64(channel * rows)
        for row in range(np.uint64(rows)):
            word = np.int32(source[np.uint64(begin + pace * order[row])])
            top = max(top, np.int32(word & MAGNITUDE))
            out[goal + row] = number(word)
    if top >= INFINITE:
        for channel in range(first.size):
            for row in range(rows):
                word = np.int32(source[np.uint64(first[channel] + step[channel] * order[row])])
                out[np.uint64(channel * rows + row)] = special_number(word)
    return top >= INFINITE


@part
def _add_parts(sums, begin, count, parts, apart):  # type: ignore[no-untyped-def]
    """Adds what lies `apart` from sums, and twice that, to them: so many `parts` there are of every one."""
    at, many = np.uint64(begin), np.uint64(count)
    for each in range(1, parts):
        other = np.uint64(begin + each * apart)
        for i in range(many):
            sums[at + i] += sums[other + i]


@part
def finish_row(row, begin, width, more, numbers, words):  # type: ignore[no-untyped-def]
    """Words of sums from `begin` on: see `_store_loop`."""
    limit, post, scale, floor = numbers[0], numbers[1], numbers[2], numbers[3]
    at, many = np.uint64(begin), np.uint64(width)
    if post == 0 and scale == 1:
        for i in range(many):
            value = row[at + i] + more
            if abs(value) >= limit:
                value = np.copysign(INFINITY, value)
            if value <= floor:  # a zero without its sign; what is no number stays
                value = floor
            words[i] = np.uint16(to_word(value))
        return
    for i in range(many):
        value = row[at + i] + more
        if abs(value) >= limit:
            value = np.copysign(INFINITY, value)
        value = (value + post) * scale
        if value <= floor:
            value = floor
        words[i] = np.uint16(to_word(value))


# decisions: loops within loops are what is compiled
def _store_loop(sums, bias, numbers, target, places):  # type: ignore[no-untyped-def]
    """Sums through the post stage to fp16 words, ties away. The second strides are those of the sums, whose rows lie
    one behind the other from the third dimension on. `bias` [groups, channels] is added to each sum, then what
    exceeds `numbers[0]` is infinite, then + numbers[1], * numbers[2], not below numbers[3]. Where channels are
    neighbours in the target and columns are not, it is written block by block. Behind the places: of how many parts,
    added in their order, a sum is, and how far apart these lie."""
    width, step, planes, rows = places[4], places[9], places[2], places[3]
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    across = min(width, WIDE if step == 1 else COLUMNS)
    down = max(1, WIDE // max(1, across)) if across == width and step == 1 else 1
    together = CHANNELS if step != 1 and places[6] == 1 else 1
    words = rows_of(together, across * down, np.uint16(0))
    for a in range(places[0]):
        for first in range(0, places[1], together):
            count = min(together, places[1] - first)
            begin = a * places[10] + first * places[11]
            for row in range(0, planes * rows, down):
                many = min(down, planes * rows - row)
                for left in range(0, width, across):
                    columns = min(across, width - left)
                    for b in range(count):
                        more = bias[a * places[15] + (first + b) * places[16]]
                        line, at_sums = words[b], begin + b * places[11] + row * width + left
                        _add_parts(sums, at_sums, many * columns, places[20], places[21])
                        finish_row(sums, at_sums, many * columns, more, numbers, line)
                        low, high, signed = survey(line, many * columns, low, high, signed)
                    start = a * places[5] + first * places[6] + left * step
                    plane, d = row // rows * places[7], row % rows
                    for y in range(many):
                        goal = start + plane + d * places[8]
                        d += 1
                        if d == rows:
                            plane, d = plane + places[7], 0
                        if step == 1:
                            at, place = np.uint64(y * columns), np.uint64(goal)
                            for i in range(np.uint64(columns)):
                                target[place + i] = words[0, at + i]
                        else:
                            spread(words, count, columns, target[goal:], step)
    give_back(words)
    return low, high, signed


@part
def spread(words, count, columns, goal, step):  # type: ignore[no-untyped-def]
    """Words [channels, columns] to columns `step` apart, channels beside each other."""
    if count == CHANNELS:
        for i in range(columns):
            line = goal[i * step:]
            for b in range(CHANNELS):
                line[b] = words[b, i]
        return
    for b in range(count):
        for i in range(columns):
            goal[i * step + b] = words[b, i]


_GOAL = "uint16[::1]", "int64[::1]"
LOAD = TaskLoop(_load_loop, ("uint16[::1]", "int64[::1]", "float32", "float32[::1]"), ("int64",) * 2)
GATHER = TaskLoop(_gather_loop, ("uint16[::1]", *("int64[::1]",) * 3, "float32[::1]"), ("boolean",))
STORE = TaskLoop(_store_loop, (*("float32[::1]",) * 3, *_GOAL), ("int32",) * 3)
STORE_DOUBLES = TaskLoop(_store_loop, (*("float64[::1]",) * 3, *_GOAL), ("int32",) * 3)
