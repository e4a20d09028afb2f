"""The loop of elementwise operations of the planar engine: chunks that stay in the cache, each step a loop of its own.

Operands and places are as in `loops`; the steps are those of `planar_engine`, in its order. No step keeps some elements
of an array and stores others: compilers make masked stores of that, which take many times as long on some processors.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, give_back, part, room
from openane.machine_code.halves import INFINITE, MAGNITUDE, ZERO, even, number, special_number
from openane.simulator.compiled.words import largest, survey

CHUNK = 4096
FIRST_RELU, PRE_SCALE, NEGATE, ABSOLUTE, SECOND_RELU, SUBTRACT, GAIN, SQUARE, SCALE, BIAS, RELU, KEEP = (
    1 << bit for bit in range(12))
ALONE, ADD, MULTIPLY, MAXIMUM, MINIMUM = range(5)
FIRST, SECOND, THIRD, FOURTH = np.arange(5, 25, 5)  # of `places`, the strides of each; see `windows.START`


@part
def _place(row, places, strides):  # type: ignore[no-untyped-def]
    """Where row number `row` begins."""
    rest, d = divmod(row, places[3])
    rest, c = divmod(rest, places[2])
    a, b = divmod(rest, places[1])
    return a * places[strides] + b * places[strides + 1] + c * places[strides + 2] + d * places[strides + 3]


@part
def _fetch(source, places, strides, row, rows, left, count, words):  # type: ignore[no-untyped-def]
    """Copies `rows` rows from number `row` on, `count` columns from `left` on, into one run of words."""
    step, many = np.uint64(places[strides + 4]), np.uint64(count)
    place, d = _place(row, places, strides), row % places[3]
    for r in range(row, row + rows):
        at, goal = np.uint64(place + left * places[strides + 4]), np.uint64((r - row) * count)
        if places[strides + 4] == 1:
            for i in range(many):
                words[goal + i] = source[at + i]
        else:
            for i in range(many):
                words[goal + i] = source[at + i * step]
        d, place = d + 1, place + places[strides + 3]
        if d == places[3]:  # counted: dividing takes longer than copying a short row
            d, place = 0, _place(r + 1, places, strides)


@part
def _spread(words, target, places, strides, row, rows, left, count):  # type: ignore[no-untyped-def]
    """The way back of `_fetch`."""
    step, many = np.uint64(places[strides + 4]), np.uint64(count)
    place, d = _place(row, places, strides), row % places[3]
    for r in range(row, row + rows):
        goal, at = np.uint64(place + left * places[strides + 4]), np.uint64((r - row) * count)
        if places[strides + 4] == 1:
            for i in range(many):
                target[goal + i] = words[at + i]
        else:
            for i in range(many):
                target[goal + i * step] = words[at + i]
        d, place = d + 1, place + places[strides + 3]
        if d == places[3]:  # counted: dividing takes longer than copying a short row
            d, place = 0, _place(r + 1, places, strides)


@part
def _numbers(words, count, values, floor):  # type: ignore[no-untyped-def]
    """Numbers behind words, none below `floor`, and how many are NaN and infinite."""
    for i in range(count):
        value = number(np.int32(words[i]))
        values[i] = value if value > floor else floor
    nan, infinite = 0, 0
    if largest(words, count) >= INFINITE:
        for i in range(count):
            word = np.int32(words[i])
            size = np.int32(word & MAGNITUDE)
            nan += int(size > INFINITE)
            infinite += int(size == INFINITE)
            value = special_number(word)
            values[i] = value if value > floor else floor
    return nan, infinite


@part
def _enter(x, count, flags, pre_scale):  # type: ignore[no-untyped-def]
    if flags & PRE_SCALE:
        for i in range(count):
            x[i] *= pre_scale
    if flags & NEGATE:
        for i in range(count):
            x[i] = -x[i]
    if flags & ABSOLUTE:
        for i in range(count):
            x[i] = abs(x[i])


# decisions: one case each, a loop each
@part
def _combine(x, y, count, flags, function, chosen):  # type: ignore[no-untyped-def]
    if flags & SUBTRACT:
        for i in range(count):
            y[i] = -y[i]
    if function == ADD:
        for i in range(count):
            x[i] += y[i]
    elif function == MULTIPLY:
        for i in range(count):
            x[i] *= y[i]
    elif function == MAXIMUM:
        for i in range(count):
            chosen[i] = x[i] if x[i] > y[i] or x[i] != x[i] else y[i]
        for i in range(count):
            x[i] = chosen[i]
    elif function == MINIMUM:
        for i in range(count):
            chosen[i] = x[i] if x[i] < y[i] or x[i] != x[i] else y[i]
        for i in range(count):
            x[i] = chosen[i]


@part
def _finish(x, count, flags, scale, bias):  # type: ignore[no-untyped-def]
    if flags & SQUARE:
        for i in range(count):
            x[i] *= x[i]
    if flags & SCALE:
        for i in range(count):
            value = x[i]
            scaled = (value if value == value else ZERO) * scale
            x[i] = scaled if scaled == scaled else ZERO
        if flags & BIAS:
            for i in range(count):
                x[i] += bias
    elif flags & BIAS:
        for i in range(count):
            value = x[i]
            x[i] = (value if value == value else ZERO) + bias


@part
def _floor(flags, relu):  # type: ignore[no-untyped-def]
    """The least number there is behind a ReLU that `flags` may name."""
    return ZERO if flags & relu else np.float32(-np.inf)


@part
def _multiply(x, y, count):  # type: ignore[no-untyped-def]
    """`x`, of which what is no number is zero, times `y`."""
    for i in range(count):
        value = x[i]
        x[i] = (value if value == value else ZERO) * y[i]


@part
def _keep(x, count, floor, values, place):  # type: ignore[no-untyped-def]
    """Numbers to a place of `values`, none below `floor`, zero for what is none."""
    for i in range(count):
        value = floor if x[i] <= floor else x[i]
        values[place + i] = value if value == value else ZERO


# decisions: a step each
def _planar_loop(first, second, gains, target, values, places, flags, function, numbers):  # type: ignore[no-untyped-def]
    """Elementwise operations in chunks. `second` is used unless the function is ALONE, `gains` where `flags` say
    so: (first + second) * gains. `numbers` are pre-scale, scale and bias. Counts of NaN and infinities read, then
    the survey of what is stored; with KEEP the numbers go to `values`, one after the other, and nothing is stored."""
    width, total = places[4], places[0] * places[1] * places[2] * places[3]
    across = min(width, CHUNK)
    down = max(1, CHUNK // max(1, across))
    words, result = room(CHUNK, np.uint16(0)), room(CHUNK, np.uint16(0))
    x, y = room(CHUNK, np.float32(0)), room(CHUNK, np.float32(0))
    chosen = room(CHUNK, np.float32(0))
    first_floor, second_floor, floor = _floor(flags, FIRST_RELU), _floor(flags, SECOND_RELU), _floor(flags, RELU)
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    nan, infinite = 0, 0
    for row in range(0, total, down):
        rows = min(down, total - row)
        for left in range(0, width, across):
            columns = min(across, width - left)
            count = rows * columns
            _fetch(first, places, FIRST, row, rows, left, columns, words)
            found = _numbers(words, count, x, first_floor)
            nan += found[0]
            infinite += found[1]
            _enter(x, count, flags, numbers[0])
            if function != ALONE:
                _fetch(second, places, SECOND, row, rows, left, columns, words)
                found = _numbers(words, count, y, second_floor)
                nan += found[0]
                infinite += found[1]
                _combine(x, y, count, flags, function, chosen)
            if flags & GAIN:
                _fetch(gains, places, THIRD, row, rows, left, columns, words)
                found = _numbers(words, count, y, np.float32(-np.inf))
                nan += found[0]
                infinite += found[1]
                _multiply(x, y, count)
            _finish(x, count, flags, numbers[1], numbers[2])
            if flags & KEEP:
                _keep(x, count, floor, values, row * width + left)
                continue
            for i in range(count):
                value = x[i]
                result[i] = np.uint16(even(floor if value <= floor else value))
            low, high, signed = survey(result, count, low, high, signed)
            _spread(result, target, places, FOURTH, row, rows, left, columns)
    give_back(words)
    give_back(result)
    give_back(x)
    give_back(y)
    give_back(chosen)
    return nan, infinite, low, high, signed


def _translate_loop(source, target, places, table, copies):  # type: ignore[no-untyped-def]
    """Words as `table` translates them, or where it `copies` as they are, but for NaN, which become infinite. Counts
    and survey as of `planar`."""
    width, total = places[4], places[0] * places[1] * places[2] * places[3]
    across = min(width, CHUNK)
    down = max(1, CHUNK // max(1, across))
    words = room(CHUNK, np.uint16(0))
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    nan, infinite = 0, 0
    for row in range(0, total, down):
        rows = min(down, total - row)
        for left in range(0, width, across):
            columns = min(across, width - left)
            count = rows * columns
            _fetch(source, places, FIRST, row, rows, left, columns, words)
            if largest(words, count) >= INFINITE:
                for i in range(count):
                    size = np.int32(np.int32(words[i]) & MAGNITUDE)
                    infinite += int(size == INFINITE)
                    if size > INFINITE:
                        nan += 1
                        words[i] = np.uint16(INFINITE) if copies else words[i]
            if not copies:
                for i in range(count):
                    words[i] = table[words[i]]
            low, high, signed = survey(words, count, low, high, signed)
            _spread(words, target, places, SECOND, row, rows, left, columns)
    give_back(words)
    return nan, infinite, low, high, signed


_GIVES = "int64", "int64", "int32", "int32", "int32"
TRANSLATE = TaskLoop(_translate_loop, ("uint16[::1]", "uint16[::1]", "int64[::1]", "uint16[::1]", "boolean"), _GIVES)
PLANAR = TaskLoop(_planar_loop, (*("uint16[::1]",) * 4, "float32[::1]", "int64[::1]", "int64", "int64", "float32[::1]"),
                  _GIVES)
