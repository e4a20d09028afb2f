"""Reductions of rows of numbers, and what follows them: see `simulator.reductions`."""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, give_back, part, room
from openane.machine_code.halves import even_double

BLOCK = 128
"""Terms that are added without halving: numpy's, for the same bits."""
NOTHING, RECIPROCAL, RSQRT = 0, 1, 2


@part
def _block_sum(values, begin, count):  # type: ignore[no-untyped-def]
    """Up to `BLOCK` numbers as float64: eight sums at a time."""
    at = np.uint64(begin)
    if count < 8:
        total = -0.0
        for i in range(np.uint64(count)):
            total += np.float64(values[at + i])
        return total
    sums = room(8, 0.0)
    for j in range(np.uint64(8)):
        sums[j] = np.float64(values[at + j])
    whole = count - count % 8
    for i in range(np.uint64(8), np.uint64(whole), np.uint64(8)):
        for j in range(np.uint64(8)):
            sums[j] += np.float64(values[at + i + j])
    total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for i in range(np.uint64(whole), np.uint64(count)):
        total += np.float64(values[at + i])
    give_back(sums)
    return total


@part
def pairwise(values, begin, count):  # type: ignore[no-untyped-def]
    """Numbers as float64, halves first, as numpy adds them."""
    if count <= BLOCK:
        return _block_sum(values, begin, count)
    half = count // 2
    half -= half % 8
    return pairwise(values, begin, half) + pairwise(values, begin + half, count - half)


def _reduce_loop(values, count, summing, fresh, totals):  # type: ignore[no-untyped-def]
    """Takes rows of `count` numbers, one behind the other, into as many totals, or begins them where these are `fresh`:
    their sum or their largest."""
    for row in range(totals.size):
        if fresh:
            totals[row] = 0.0 if summing else -np.inf
        if summing:
            totals[row] += pairwise(values, row * count, count)
            continue
        at, most = np.uint64(row * count), values[row * count]
        for i in range(np.uint64(count)):
            most = np.maximum(most, values[at + i])
        totals[row] = max(totals[row], np.float64(most))


def _finish_loop(totals, numbers, root, relu, target, places):  # type: ignore[no-untyped-def]
    """Totals * numbers[0] + numbers[1], of that the reciprocal or that of the root, to fp16 words, ties to even.
    `places` are two extents and two strides of the target. The survey of what is stored."""
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    for row in range(totals.size):
        total = totals[row]
        value = (0.0 if total != total else total) * numbers[0] + numbers[1]
        if root != NOTHING:
            size = np.sqrt(value) if root == RSQRT else value
            value = np.inf if value == 0 else 1 / size
        if relu and value <= 0:  # a zero without its sign
            value = 0.0
        word = even_double(value)
        target[row // places[1] * places[2] + row % places[1] * places[3]] = np.uint16(word)
        low, high = min(low, word), max(high, word)
        signed = max(signed, np.int32(np.int32(word << np.int32(16)) >> np.int32(16)))
    return low, high, signed


REDUCE = TaskLoop(_reduce_loop, ("float32[::1]", "int64", "boolean", "boolean", "float64[::1]"))
FINISH = TaskLoop(_finish_loop, ("float64[::1]", "float64[::1]", "int64", "boolean", "uint16[::1]", "int64[::1]"),
                  ("int32",) * 3)
