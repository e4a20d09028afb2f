"""Loops over windows of one plane at a time: sums of every channel's own inputs, and pooling.

A plane is decoded once, padded, into phases: the rows and columns that have the same rest of the strides lie together.
A tap of a window then is a run of one phase for all rows at once; what comes out between the rows is left out
afterwards. Places in arrays are unsigned, for those cannot count from an array's end, which numba would look at.
Operands and places are as in `loops`.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop, give_back, part, room, rows_of
from openane.machine_code.halves import INFINITE, MAGNITUDE, even, number, special_number
from openane.simulator.compiled.loops import CHANNELS, finish_row
from openane.simulator.compiled.words import survey

ADD, MAXIMUM = 1, 3  # as in `planar`
START = np.int64(0)
"""A 0 with the type of variables: numba compiles what is called with a number in the source for that number alone."""


@part
def _largest_row(source, begin, step, width):  # type: ignore[no-untyped-def]
    """Of words `step` apart, the largest without its sign."""
    top = np.uint16(0)
    at = np.uint64(begin)
    if step == 1:
        for i in range(np.uint64(width)):
            top = max(top, np.uint16(source[at + i] & np.uint16(MAGNITUDE)))
    else:
        for i in range(np.uint64(width)):
            top = max(top, np.uint16(source[at + i * np.uint64(step)] & np.uint16(MAGNITUDE)))
    return np.int32(top)


@part
def _decode_row(source, begin, step, width, floor, line, place):  # type: ignore[no-untyped-def]
    """Numbers behind words that lie `step` apart, none below `floor`, from a place of `line` on. Counts of NaN and
    infinities."""
    at, goal = np.uint64(begin), np.uint64(place)
    if step == 1:
        for i in range(np.uint64(width)):
            value = number(np.int32(source[at + i]))
            line[goal + i] = value if value > floor else floor
    else:
        for i in range(np.uint64(width)):
            value = number(np.int32(source[at + i * np.uint64(step)]))
            line[goal + i] = value if value > floor else floor
    nan, infinite = 0, 0
    if _largest_row(source, begin, step, width) >= INFINITE:
        for i in range(np.uint64(width)):
            word = np.int32(source[at + i * np.uint64(step)])
            size = np.int32(word & MAGNITUDE)
            nan += int(size > INFINITE)
            infinite += int(size == INFINITE)
            value = special_number(word)
            line[goal + i] = value if value > floor else floor
    return nan, infinite


@part
def _part_columns(line, count, across, plane, place, apart):  # type: ignore[no-untyped-def]
    """Columns of a row to their phases, which lie `apart`; `count` of each."""
    goal, many = np.uint64(place), np.uint64(count)
    if across == 2:
        other = np.uint64(place + apart)
        for i in range(many):
            plane[goal + i] = line[np.uint64(2) * i]
            plane[other + i] = line[np.uint64(2) * i + np.uint64(1)]
        return
    for rest in range(across):
        goal, at = np.uint64(place + rest * apart), np.uint64(rest)
        for i in range(many):
            plane[goal + i] = line[at + np.uint64(across) * i]


@part
def _decode_plane(source, begin, places, floor, fill, line, plane, base, phases, place):  # type: ignore[no-untyped-def]
    """One plane of the source into its phases from `base` on; `phases` are their rows and columns, `place` where the
    plane begins in the padded one and the strides. `line` is room for a row, `fill` what is around it. Counts of NaN
    and infinities."""
    rows, span = phases
    top, left, down, across = place
    width, lead = places[4], left % across
    count = (lead + width + across - 1) // across
    nan, infinite = 0, 0
    for y in range(places[3]):
        row = begin + y * places[8]
        start = base + ((top + y) % down * across * rows + (top + y) // down) * span
        if across == 1:
            found = _decode_row(source, row, places[9], width, floor, plane, start + left)
        else:
            for i in range(lead):
                line[i] = fill
            for i in range(lead + width, count * across):
                line[i] = fill
            found = _decode_row(source, row, places[9], width, floor, line, lead)
            _part_columns(line, count, across, plane, start + left // across, rows * span)
        nan += found[0]
        infinite += found[1]
    return nan, infinite


@part
def _decode_run(source, begin, places, floor, plane, base, place, padded):  # type: ignore[no-untyped-def]
    """A plane without NaN or infinity at once, in rows that lie as far apart as in the source; zeros between them where
    they are `padded`."""
    top, left = place
    pitch, width = places[8], places[4]
    count = (places[3] - 1) * pitch + width
    at, goal = np.uint64(begin), np.uint64(base + top * pitch + left)
    for i in range(np.uint64(count)):
        value = number(np.int32(source[at + i]))
        plane[goal + i] = value if value > floor else floor
    for y in range(places[3] - 1 if padded else 0):
        gap = goal + np.uint64(y * pitch + width)
        for i in range(np.uint64(pitch - width)):
            plane[gap + i] = np.float32(0)


@part
def _tap(ky, kx, phases, down, across):  # type: ignore[no-untyped-def]
    """Where the run of a tap begins."""
    rows, span = phases
    return np.uint64(((ky % down * across + kx % across) * rows + ky // down) * span + kx // across)


@part
def _add_taps(weights, term, plane, base, ky, taps, phases, down, across, sums, count):  # type: ignore[no-untyped-def]
    """Adds the products of one row of `taps`, in their order; the first term of all is set."""
    start, many = np.uint64(base), np.uint64(count)
    kx = START
    while kx < taps:
        a, u = start + _tap(ky, kx, phases, down, across), weights[term + kx]
        if kx + 2 < taps:
            b, v = start + _tap(ky, kx + 1, phases, down, across), weights[term + kx + 1]
            c, w = start + _tap(ky, kx + 2, phases, down, across), weights[term + kx + 2]
            if term + kx == 0:
                for i in range(many):
                    sums[i] = u * plane[a + i] + v * plane[b + i] + w * plane[c + i]
            else:
                for i in range(many):
                    sums[i] = sums[i] + u * plane[a + i] + v * plane[b + i] + w * plane[c + i]
            kx += 3
            continue
        if term + kx == 0:
            for i in range(many):
                sums[i] = u * plane[a + i]
        else:
            for i in range(many):
                sums[i] += u * plane[a + i]
        kx += 1


@part
def _fill_gaps(values, rows, columns, span):  # type: ignore[no-untyped-def]
    """What lies between rows that lie `span` apart becomes like their first number."""
    for y in range(rows - 1):
        at = np.uint64(y * span + columns)
        for i in range(np.uint64(span - columns)):
            values[at + i] = values[0]


@part
def _put_rows(words, span, target, start, goals):  # type: ignore[no-untyped-def]
    """Words of rows that lie `span` apart in their places."""
    for y in range(goals[3]):
        at, goal = np.uint64(y * span), np.uint64(start + y * goals[8])
        if goals[9] == 1:
            for i in range(np.uint64(goals[4])):
                target[goal + i] = words[at + i]
        else:
            for i in range(np.uint64(goals[4])):
                target[goal + i * np.uint64(goals[9])] = words[at + i]


@part
def _put_channels(words, count, span, target, start, goals):  # type: ignore[no-untyped-def]
    """Words [channels, rows that lie `span` apart] of planes whose channels are neighbours in the target."""
    many, step = np.uint64(count), np.uint64(goals[9])
    for y in range(goals[3]):
        at, goal = np.uint64(y * span), np.uint64(start + y * goals[8])
        for i in range(np.uint64(goals[4])):
            for b in range(many):
                target[goal + i * step + b] = words[b, at + i]


@part
def _joined(places):  # type: ignore[no-untyped-def]
    """Whether it is cheaper to look at what lies between the rows of a plane, too, than at every row."""
    return places[9] == 1 and places[4] <= places[8] <= 2 * places[4]


@part
def calm(source, places):  # type: ignore[no-untyped-def]
    """Whether there is neither NaN nor infinity among the words."""
    width = places[4]
    for a in range(places[0]):
        for b in range(places[1]):
            for c in range(places[2]):
                begin = a * places[5] + b * places[6] + c * places[7]
                joined = (places[3] - 1) * places[8] + width
                if _joined(places) and _largest_row(source, begin, places[9], joined) < INFINITE:
                    continue
                for d in range(places[3]):
                    if _largest_row(source, begin + d * places[8], places[9], width) >= INFINITE:
                        return False
    return True


# decisions: loops within loops are what is compiled
def _channel_loop(source, places, weights, bias, numbers, target, goals, windows, floor):  # type: ignore[no-untyped-def]
    """A tile in which every channel has `inputs` channels of its own: sums over the terms in their order, then as
    `loops.store`. `weights` [sets, channels, terms], `bias` [sets or 1, channels or 1]; places of the source and the
    target; `windows` are the inputs, kernel (rows, planes, columns), stride of rows and columns, the padded extents
    and where in them the source begins. Says first whether anything was done: nothing is where a source element is
    not finite."""
    inputs, tall, deep, broad, down, across, height, width, front, top, left = windows
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    if not calm(source, places):
        return False, low, high, signed
    rows, columns = goals[3], goals[4]
    sets, biases, many = weights.shape[0], bias.shape[0], bias.shape[1]
    phases = (height + down - 1) // down, (width + across - 1) // across
    padded = width != places[4]
    at_once = down == across == 1 and _joined(places) and width <= places[8]
    if at_once:
        phases = height, places[8]
    share, span = phases[0] * phases[1] * down * across, phases[1]
    run = (rows - 1) * span + columns
    plane = room(inputs * deep * share, np.float32(0))
    plane[:] = np.float32(0)
    line, sums = room(places[4] + 2 * across, np.float32(0)), room(run, np.float32(0))
    together = CHANNELS if goals[9] != 1 and goals[6] == 1 else 1
    words = rows_of(together, run, np.uint16(0))
    for a in range(goals[0]):
        for channel in range(goals[1]):
            for each in range(inputs):
                for z in range(places[2]):
                    begin = a * places[5] + (channel * inputs + each) * places[6] + z * places[7]
                    base = (each * deep + front + z) * share
                    if at_once:
                        _decode_run(source, begin, places, floor, plane, base, (top, left), padded)
                    else:
                        _decode_plane(source, begin, places, floor, np.float32(0), line, plane, base, phases,
                                      (top, left, down, across))
            taps, term = weights[a if sets > 1 else 0, channel], START
            for ky in range(tall):
                for each in range(inputs):
                    for kz in range(deep):
                        _add_taps(taps, term, plane, (each * deep + kz) * share, ky, broad, phases, down, across, sums,
                                  run)
                        term += broad
            _fill_gaps(sums, rows, columns, span)
            more = bias[a if biases > 1 else 0, channel if many > 1 else 0]
            block = words[channel % together]
            finish_row(sums, START, run, more, numbers, block)
            low, high, signed = survey(block, run, low, high, signed)
            first = channel - channel % together
            if together == 1:
                _put_rows(block, span, target, a * goals[5] + channel * goals[6], goals)
            elif channel == min(first + together, goals[1]) - 1:
                _put_channels(words, channel - first + 1, span, target, a * goals[5] + first, goals)
    for each in (plane, line, sums):
        give_back(each)
    give_back(words)
    return True, low, high, signed


@part
def _take_tap(function, plane, begin, total, count):  # type: ignore[no-untyped-def]
    """Combines the run of one tap with what there is."""
    at, many = np.uint64(begin), np.uint64(count)
    if function == ADD:
        for i in range(many):
            total[i] += plane[at + i]
    elif function == MAXIMUM:
        for i in range(many):
            total[i] = np.maximum(total[i], plane[at + i])
    else:
        for i in range(many):
            total[i] = np.minimum(total[i], plane[at + i])


# decisions: loops within loops are what is compiled
def _pool_loop(source, places, target, goals, windows, function, fill, scale, floor):  # type: ignore[no-untyped-def]
    """Windows over the last two dimensions of planes, `fill` around them: `windows` are kernel, stride, the padded
    extents and where in them the source begins. Results * scale, not below `floor`. Counts of NaN and infinities read,
    then the survey of what is stored."""
    tall, broad, down, across, height, width, top, left = windows
    rows, columns = goals[3], goals[4]
    low, high, signed = np.int32(0xFFFF), np.int32(0), np.int32(-0x8000)
    phases = (height + down - 1) // down, (width + across - 1) // across
    run = (rows - 1) * phases[1] + columns
    plane = room(phases[0] * phases[1] * down * across, fill)
    plane[:] = fill
    line, total = room(places[4] + 2 * across, np.float32(0)), room(run, np.float32(0))
    words = room(run, np.uint16(0))
    nan, infinite = 0, 0
    for a in range(places[0]):
        for b in range(places[1]):
            for c in range(places[2]):
                begin = a * places[5] + b * places[6] + c * places[7]
                found = _decode_plane(source, begin, places, np.float32(-np.inf), fill, line, plane, START, phases,
                                      (top, left, down, across))
                nan += found[0]
                infinite += found[1]
                for i in range(run):
                    total[i] = plane[i]
                for ky in range(tall):
                    for kx in range(int(ky == 0), broad):
                        _take_tap(function, plane, _tap(ky, kx, phases, down, across), total, run)
                _fill_gaps(total, rows, columns, phases[1])
                for i in range(run):
                    value = total[i] * scale
                    words[i] = np.uint16(even(floor if value <= floor else value))
                low, high, signed = survey(words, run, low, high, signed)
                _put_rows(words, phases[1], target, a * goals[5] + b * goals[6] + c * goals[7], goals)
    for each in (plane, line, total):
        give_back(each)
    give_back(words)
    return nan, infinite, low, high, signed


CHANNEL = TaskLoop(_channel_loop, ("uint16[::1]", "int64[::1]", "float32[:,:,::1]", "float32[:,::1]", "float32[::1]",
                                   "uint16[::1]", "int64[::1]", "int64*11", "float32"),
                   ("boolean", "int32", "int32", "int32"))
POOL = TaskLoop(_pool_loop, ("uint16[::1]", "int64[::1]", "uint16[::1]", "int64[::1]", "int64*8", "int64", "float32",
                             "float32", "float32"), ("int64", "int64", "int32", "int32", "int32"))
