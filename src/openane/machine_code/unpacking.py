"""Weights taken out of the streams of cores, as float32: the way back of `laying`, and that of bodies without zeros.

Lanes of a block lie side by side, one row of them for each weight. A zero-skipping body says itself where its next mask
begins, and may say anything: every mask, and what it announces, is checked to lie inside the body before it is read.
See `chips.coefficients` for both forms.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, give_back, part, room
from openane.machine_code.halves import MAGNITUDE, ZERO, special_number

TOGETHER = 16
"""Weights of a lane that are written one behind the other before the next lane's: a line of the cache of float32."""
BITS = 8


def _unpack_loop(words, runs, order, numbers):  # type: ignore[no-untyped-def]
    """Makes `numbers` [channels * rows] of the `words` of blocks. `runs` [blocks * 4] are, of each block, the first
    word, how far apart rows are, its first channel and how many it has; `order` [rows] is the row of the stream behind
    every one of a channel's. Gives the largest magnitude among the words."""
    rows, largest = order.size, np.int32(0)
    for block in range(0, runs.size, 4):
        first, step, channel, lanes = runs[block], runs[block + 1], runs[block + 2], runs[block + 3]
        for begin in range(0, rows, TOGETHER):
            end = min(begin + TOGETHER, rows)
            for lane in range(lanes):
                place = (channel + lane) * rows
                for row in range(begin, end):
                    word = np.int32(words[np.uint64(first + order[row] * step + lane)])
                    largest = max(largest, np.int32(word & MAGNITUDE))
                    numbers[np.uint64(place + row)] = special_number(word)
    return largest


@part
def _count(mask):  # type: ignore[no-untyped-def]
    """Bits that are set in a byte."""
    pairs = np.int64(mask) - (np.int64(mask) >> 1 & 0x55)
    fours = (pairs & 0x33) + (pairs >> 2 & 0x33)
    return (fours + (fours >> 4)) & 0xF


@part
def _marked(data, at, masked, marks, first):  # type: ignore[no-untyped-def]
    """How many values the bytes of a mask announce; -1 where it has a bit that `marks`, from the `first` byte on, has
    not."""
    count = 0
    for byte in range(masked):
        mask = data[np.uint64(at + byte)]
        if mask & ~marks[np.uint64(first + byte)]:
            return -1
        count += _count(mask)
    return count


@part
def _spread(line, places, marks, base, pitch, count, numbers):  # type: ignore[no-untyped-def]
    """Puts the values of `count` inputs where they go."""
    for value in range(places.size):
        if marks[value >> 3] >> np.uint8(value & 7) & np.uint8(1):
            goal = base + places[value]
            for turn in range(count):
                numbers[np.uint64(goal + turn * pitch)] = line[np.uint64(value * TOGETHER + turn)]


@part
def _taken(data, even, odd, at, masks, masked, count, line):  # type: ignore[no-untyped-def]
    """Puts the values of `count` inputs, whose masks begin at a byte, into `line`, those of one value side by side.
    Gives the largest magnitude among the words."""
    largest = np.int32(0)
    for turn in range(count):
        for first in range(0, masks, masked):
            place = at + masked
            for byte in range(masked):
                mask = np.int32(data[np.uint64(at + byte)])
                goal = np.uint64((first + byte) * BITS * TOGETHER + turn)
                words, word = (odd, place >> 1) if place & 1 else (even, place >> 1)
                for bit in range(np.uint64(BITS)):
                    if mask >> np.int32(bit) & np.int32(1):
                        found = np.int32(words[np.uint64(word)])
                        word += 1
                        place += 2
                        largest = max(largest, np.int32(found & MAGNITUDE))
                        line[goal] = special_number(found)
                    else:
                        line[goal] = ZERO
                    goal += np.uint64(TOGETHER)
            at = place
    return largest


@part
def _followed(data, at, end, marks, masked, count):  # type: ignore[no-untyped-def]
    """Follows the masks of `count` inputs from a byte on. Gives the byte behind them and what they announce, which is
    beyond the end where they are not as they must be."""
    for _ in range(count):
        for first in range(0, marks.size, masked):
            found = _marked(data, at, masked, marks, first) if at + masked <= end else -1
            at += masked + 2 * found
            if found < 0 or at > end:
                return end + 1
    return at


def _unskip_loop(data, even, odd, bodies, marks, places, sizes, numbers):  # type: ignore[no-untyped-def]
    """Puts what zero-skipping bodies of `data` hold into `numbers`; `even` and `odd` are the words of `data` from its
    first byte on, and from its second. `bodies` [blocks * 3] are, of each body, its first byte, the one behind its
    last, and where the numbers of its first channel begin. `sizes` are how much further the numbers of the next input
    lie, the bytes of a mask, and how many inputs there are, each of which has `places` [values], counted from where the
    channel's numbers begin, and no bit in a mask that `marks` [values / 8] has not. `numbers` may be empty: then bodies
    are followed and nothing is taken out. Gives the number of the first body that is not as it must be, or -1, and the
    largest magnitude among the words."""
    pitch, masked, inputs = sizes
    line = room(places.size * TOGETHER if numbers.size else 0, ZERO)
    failed, largest = -1, np.int32(0)
    for body in range(0, bodies.size, 3):
        at, end, base = bodies[body], bodies[body + 1], bodies[body + 2]
        for turn in range(0, inputs, TOGETHER):
            count = min(TOGETHER, inputs - turn)
            start, at = at, _followed(data, at, end, marks, masked, count)
            if at > end:
                break
            if numbers.size:
                largest = max(largest, _taken(data, even, odd, start, marks.size, masked, count, line))
                _spread(line, places, marks, base + turn * pitch, pitch, count, numbers)
        if at != end:
            failed = body // 3
            break
    give_back(line)
    return failed, largest


UNPACK = TaskLoop(_unpack_loop, ("uint16[::1]", "int64[::1]", "int64[::1]", "float32[::1]"), ("int64",))
UNSKIP = TaskLoop(_unskip_loop, ("uint8[::1]", "uint16[::1]", "uint16[::1]", "int64[::1]", "uint8[::1]", "int64[::1]",
                                 "int64*3", "float32[::1]"), ("int64", "int64"))
