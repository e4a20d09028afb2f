"""Loops of sums of products by the multiply-accumulate rule; `arithmetic.compiled` says which are taken.

How it is made fast. With one factor scaled by 2^16 a float32 product counts quanta of 2^-16. That factor is moved up by
one unit in its last place, which moves no product onto a tie or across one but puts those on a tie beyond it. Adding
1.5 * 2^23 then rounds to the nearest whole number, which stands in the low bits of the sum and is added as an integer:
two instructions a product, four terms of four rows at a time. It holds below 2^21 quanta. Terms with larger products
are rounded by half a quantum more in their own direction, in float32 (the unmoved product is exact: 22 bits) where
their sums fit 32 bits, and in float64 otherwise.

Products that do not count are added as well, and taken off again: an exponent sum below -18 leaves less than half a
quantum, which is nothing, so that only sums of -17 and -18 are to be found. The exponents of each term's right factors
are kept as a set of bits; a left factor that meets neither in the set needs no second look.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, contracted, give_back, room, rows_of
from openane.simulator.arithmetic.exact import QUANTUM

QUAD = 4                    # terms, and rows, at a time
MAGIC = np.float32(1.5 * 2**23)
MAGIC_BITS = np.int32(0x4B400000)
UNIT = np.float32(1 / QUANTUM)
NUDGED_LIMIT = 2.0**21      # quanta: products below are rounded by adding MAGIC
NARROW_LIMIT = 2.0**30      # quanta: sums that 32 bits hold, with room for what is taken off
NUDGED, LARGE, WIDE = 0, 1, 2  # how the products of four terms are made
LEAST_FIELD = np.int32(127 - 14)  # of the exponents, the least, as float32 has it
ALWAYS = np.int32(-2 + 14)  # place of an exponent with which every other one counts
COUNTS = np.int32(127 - 16 + 14 + 16)  # exponent field, in quanta, from which factors count with one of place 0
SIZE = np.int32(0x7FFFFFFF)


@contracted
def _place(bits):  # type: ignore[no-untyped-def]
    """The engine's exponent of an fp16 number by its float32 bits, counted from the least one, -14."""
    return np.int32(max(np.int32(np.int32(np.int32(bits & SIZE) >> np.int32(23)) - LEAST_FIELD), np.int32(0)))


@contracted
def _least_factor(value):  # type: ignore[no-untyped-def]
    """The smallest right factor, in quanta, with which a left factor's product counts."""
    place = _place(np.float32(value).view(np.int32))
    bits = np.int32(np.int32(COUNTS - place) << np.int32(23))
    return np.float32(0) if place >= ALWAYS else bits.view(np.float32)


def _left_loop(left, largest):  # type: ignore[no-untyped-def]
    """The largest magnitude of every term of [rows, terms], as float32 bits."""
    for k in range(left.shape[1]):
        largest[k] = 0
    for i in range(left.shape[0]):
        for k in range(left.shape[1]):
            largest[k] = max(largest[k], np.int32(np.float32(left[i, k]).view(np.int32) & SIZE))


def _right_loop(right, moved, largest, present):  # type: ignore[no-untyped-def]
    """Factors [terms, columns] in quanta and moved up, in blocks [blocks, terms, width]; the largest magnitude of every
    term as float32 bits; of every block and term the exponents there are, as bits from the second on."""
    columns = right.shape[1]
    blocks, terms, width = moved.shape
    for k in range(terms):
        top = np.int32(0)
        for block in range(blocks):
            start = block * width
            seen = np.uint32(0)
            for j in range(min(width, columns - start)):
                value = np.float32(right[k, start + j])
                size = np.int32(value.view(np.int32) & SIZE)
                some = np.int32(size != 0)
                top = max(top, size)
                seen = np.uint32(seen | np.uint32(np.uint32(some) << np.uint32(_place(size) + np.int32(1))))
                moved[block, k, j] = np.int32(np.float32(value * UNIT).view(np.int32) | some).view(np.float32)
            present[block, k] = seen
        largest[k] = top


def _plan_loop(left, right, kinds, flushed, present):  # type: ignore[no-untyped-def]
    """From the largest factors of every term, how every four terms are computed, and before which of them 32 bits
    might no longer hold the sums. Returns what the sums are below, in quanta."""
    terms, total, held = left.size, 0.0, 0.0
    for four in range(kinds.size):
        bound, top = 0.0, 0.0
        last = min(QUAD * (four + 1), terms)
        for k in range(QUAD * four, last):
            product = np.float64(left[k]) * np.float64(right[k]) * UNIT
            top = max(top, product)
            bound += product + 1
        total += bound
        kinds[four] = NUDGED if top < NUDGED_LIMIT and last == QUAD * (four + 1) else LARGE
        if bound >= NARROW_LIMIT:
            kinds[four] = WIDE
        if kinds[four] != NUDGED:
            for k in range(QUAD * four, last):
                for block in range(present.shape[0]):
                    present[block, k] = 0
        if kinds[four] == WIDE:
            continue
        flushed[four] = held + bound >= NARROW_LIMIT
        held = bound if flushed[four] else held + bound
    return total


@contracted
def _bits(left, right):  # type: ignore[no-untyped-def]
    """The rounded product in quanta, MAGIC_BITS more."""
    return np.float32(left * right + MAGIC).view(np.int32)


@contracted
def _add_nudged(left, right, k, rows, sums, count):  # type: ignore[no-untyped-def]
    """Four terms of four rows; MAGIC_BITS more of each."""
    first, second, third, last = rows
    a, b, c, d = left[first, k], left[first, k + 1], left[first, k + 2], left[first, k + 3]
    e, f, g, h = left[second, k], left[second, k + 1], left[second, k + 2], left[second, k + 3]
    m, n, o, p = left[third, k], left[third, k + 1], left[third, k + 2], left[third, k + 3]
    q, r, s, t = left[last, k], left[last, k + 1], left[last, k + 2], left[last, k + 3]
    u, v, w, x = sums[0], sums[1], sums[2], sums[3]
    for j in range(count):
        i, y, z, more = right[k, j], right[k + 1, j], right[k + 2, j], right[k + 3, j]
        u[j] += _bits(a, i) + _bits(b, y) + _bits(c, z) + _bits(d, more)
        v[j] += _bits(e, i) + _bits(f, y) + _bits(g, z) + _bits(h, more)
        w[j] += _bits(m, i) + _bits(n, y) + _bits(o, z) + _bits(p, more)
        x[j] += _bits(q, i) + _bits(r, y) + _bits(s, z) + _bits(t, more)


@contracted
def _add_large(left, factors, sums, count):  # type: ignore[no-untyped-def]
    """One term of one row, whose sums fit 32 bits."""
    limit, half = _least_factor(left), np.float32(0.5)
    for j in range(count):
        b = np.int32(np.float32(factors[j]).view(np.int32) & np.int32(-2)).view(np.float32)
        rounded = left * b
        rounded += half if rounded >= 0 else -half
        sums[j] += np.int32(rounded) if abs(b) >= limit else np.int32(0)


@contracted
def _add_wide(left, factors, sums, count):  # type: ignore[no-untyped-def]
    """One term of one row, to sums in float64."""
    limit = _least_factor(left)
    for j in range(count):
        b = np.int32(np.float32(factors[j]).view(np.int32) & np.int32(-2)).view(np.float32)
        product = np.float64(left) * np.float64(b)
        product = np.trunc(product + 0.5 if product >= 0 else product - 0.5)
        sums[j] += product * QUANTUM if abs(b) >= limit else 0.0


@contracted
def _mark(left, present, marks):  # type: ignore[no-untyped-def]
    """Which terms of a row have products that round to a quantum or two and do not count."""
    for k in range(left.size):
        bits = np.float32(left[k]).view(np.int32)
        shift = np.int32(np.int32(ALWAYS - np.int32(1)) - _place(bits))
        shift = shift if shift >= 0 and np.int32(bits & SIZE) != 0 else np.int32(31)
        marks[k] = np.uint8(np.uint32(present[k] >> np.uint32(shift)) & np.uint32(3))


@contracted
def _take_off(left, right, marks, places, sums, count):  # type: ignore[no-untyped-def]
    """Takes off what was added of products that do not count, of the terms that are marked. `places` is room for these,
    which are found without branches."""
    found = 0
    for k in range(left.size):
        places[found] = k
        found += int(marks[k] != 0)
    for each in range(found):
        k = places[each]
        a, factors, limit = np.float32(left[k]), right[k], _least_factor(left[k])
        for j in range(count):
            b = factors[j]
            more = np.int32(_bits(a, b) - MAGIC_BITS)
            sums[j] = np.int32(sums[j] - np.int32(more if abs(b) < limit else np.int32(0)))


@contracted
def _flush(sums, more, total, count):  # type: ignore[no-untyped-def]
    """Moves sums of 32 bits, to which `more` was added, into those of float64."""
    for j in range(count):
        total[j] += np.float64(np.int32(sums[j] - more)) * QUANTUM
        sums[j] = 0


# decisions: loops within loops are what is compiled
def _outer_loop(left, right, present, kinds, flushed, total):  # type: ignore[no-untyped-def]
    """total[i, j] += sum over k of left[i, k] * right[k, j]; the block of columns outermost, so that its factors are
    read from the cache. `right` and `present` as `_right_loop` makes them, `kinds` and `flushed` by `_plan_loop`."""
    rows, terms = left.shape
    blocks, _, width = right.shape
    sums, marks, places = rows_of(QUAD, width, np.int32(0)), room(terms, np.uint8(0)), room(terms, np.int64(0))
    for r in range(QUAD):
        for j in range(width):
            sums[r, j] = 0
    for block in range(blocks):
        start = block * width
        count, factors = min(width, total.shape[1] - start), right[block]
        for i in range(0, rows, QUAD):
            many, magic = min(QUAD, rows - i), 0
            together = i, min(i + 1, rows - 1), min(i + 2, rows - 1), min(i + 3, rows - 1)
            for four in range(kinds.size):
                if flushed[four]:
                    for r in range(QUAD):
                        _flush(sums[r], magic, total[together[r], start:start + count], count if r < many else 0)
                    magic = 0
                k = QUAD * four
                if kinds[four] == NUDGED:
                    _add_nudged(left, factors, k, together, sums, count)
                    magic += QUAD * int(MAGIC_BITS)
                    continue
                for r in range(many):
                    for k in range(QUAD * four, min(QUAD * four + QUAD, terms)):
                        if kinds[four] == LARGE:
                            _add_large(left[i + r, k], factors[k], sums[r], count)
                        else:
                            _add_wide(left[i + r, k], factors[k], total[i + r, start:start + count], count)
            for r in range(many):
                _mark(left[i + r], present[block], marks)
                _take_off(left[i + r], factors, marks, places, sums[r], count)
            for r in range(many):
                _flush(sums[r], magic, total[i + r, start:start + count], count)
            for r in range(many, QUAD):
                sums[r] = 0
    give_back(sums)
    give_back(marks)
    give_back(places)


LEFT = TaskLoop(_left_loop, ("float32[:,::1]", "int32[::1]"))
RIGHT = TaskLoop(_right_loop, ("float32[:,:]", "float32[:,:,::1]", "int32[::1]", "uint32[:,::1]"))
PLAN = TaskLoop(_plan_loop, ("float32[::1]", "float32[::1]", "uint8[::1]", "boolean[::1]", "uint32[:,::1]"),
                ("float64",))
OUTER = TaskLoop(_outer_loop, ("float32[:,::1]", "float32[:,:,::1]", "uint32[:,::1]", "uint8[::1]", "boolean[::1]",
                               "float64[:,::1]"), contract=True)
