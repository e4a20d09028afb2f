"""Sums of products of one column with weights as they lie in memory: fp16 words, channels beside each other.

Terms are added in their order, one rounding each, as `arithmetic.fast.ordered_sums` does.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, part
from openane.machine_code.halves import INFINITE, number
from openane.simulator.compiled.words import largest

LANES = 16  # channels of a block in the form that is met most: known, they become whole vectors
HALF, QUARTER, PAIR = 8, 4, 2  # those of blocks of the channels that are left over
AT_ONCE = 8


@part
def _add_terms(words, begin, step, column, k, sums, count):  # type: ignore[no-untyped-def]
    """Eight terms of `count` channels, whose weights begin at `begin` and lie `step` apart by term."""
    a, b, c, d = column[k], column[k + 1], column[k + 2], column[k + 3]
    e, f, g, h = column[k + 4], column[k + 5], column[k + 6], column[k + 7]
    at, by = np.uint64(begin), np.uint64(step)
    for i in range(np.uint64(count)):
        total = sums[i]
        total += number(np.int32(words[at + i])) * a
        total += number(np.int32(words[at + by + i])) * b
        total += number(np.int32(words[at + np.uint64(2) * by + i])) * c
        total += number(np.int32(words[at + np.uint64(3) * by + i])) * d
        total += number(np.int32(words[at + np.uint64(4) * by + i])) * e
        total += number(np.int32(words[at + np.uint64(5) * by + i])) * f
        total += number(np.int32(words[at + np.uint64(6) * by + i])) * g
        total += number(np.int32(words[at + np.uint64(7) * by + i])) * h
        sums[i] = total


@part
def _add_lanes(words, begin, step, column, sums):  # type: ignore[no-untyped-def]
    """All terms of some channels. Widths that are known become whole vectors."""
    count, whole = sums.size, column.size // AT_ONCE * AT_ONCE
    for i in range(count):
        sums[i] = 0
    if count == LANES:
        for k in range(0, whole, AT_ONCE):
            _add_terms(words, begin + k * step, step, column, k, sums, LANES)
    elif count == HALF:
        for k in range(0, whole, AT_ONCE):
            _add_terms(words, begin + k * step, step, column, k, sums, HALF)
    elif count == QUARTER:
        for k in range(0, whole, AT_ONCE):
            _add_terms(words, begin + k * step, step, column, k, sums, QUARTER)
    elif count == PAIR:
        for k in range(0, whole, AT_ONCE):
            _add_terms(words, begin + k * step, step, column, k, sums, PAIR)
    else:
        for k in range(0, whole, AT_ONCE):
            _add_terms(words, begin + k * step, step, column, k, sums, count)
    for k in range(whole, column.size):
        for i in range(count):
            sums[i] += number(np.int32(words[begin + k * step + i])) * column[k]


@part
def _are_special(words, begin, step, terms, count):  # type: ignore[no-untyped-def]
    """Whether a weight of a block is infinite or no number."""
    if step == count:
        return largest(words[begin:], terms * count) >= INFINITE
    top = np.int32(0)
    for k in range(terms):
        top = max(top, largest(words[begin + k * step:], count))
    return top >= INFINITE


def _packed_loop(words, runs, column, sums, look):  # type: ignore[no-untyped-def]
    """`runs` [blocks, 4]: where a block's first weight lies, how far apart those of its terms are, its first channel
    and how many it has. Blocks of other widths than are known are taken in parts of these. Where it is to `look`: 1,
    and nothing done, where a weight is not finite."""
    if look:
        for run in range(runs.shape[0]):
            if _are_special(words, runs[run, 0], runs[run, 1], column.size, runs[run, 3]):
                return 1
    for run in range(runs.shape[0]):
        begin, step, first, count = runs[run, 0], runs[run, 1], runs[run, 2], runs[run, 3]
        if count > LANES and count % HALF == 0:
            _add_lanes(words, begin, step, column, sums[first:first + count])
            continue
        done = 0
        for width in (LANES, HALF, QUARTER, PAIR, 1):
            while count - done >= width:
                _add_lanes(words, begin + done, step, column, sums[first + done:first + done + width])
                done += width
    return 0


PACKED = TaskLoop(_packed_loop, ("uint16[::1]", "int64[:,::1]", "float32[::1]", "float32[::1]", "boolean"),
                  ("int64",))
