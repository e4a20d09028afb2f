"""The multiply-accumulate rule compiled to machine code: the sums of `exact`, bit for bit, some thirty times as fast.

Importing it brings the loops' machine code (`machine_code.machine`). One thread, no state; the interpreter is not
held while sums are made. How products are made fast is said in `simulator.compiled.nudged`.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.described import TaskLoop
from openane.machine_code.machine import functions
from openane.rounding import ceil_div
from openane.simulator.arithmetic import exact
from openane.simulator.arithmetic.half import Doubles, Floats
from openane.simulator.compiled.nudged import LEFT, OUTER, PLAN, QUAD, RIGHT

WIDTH = 256                 # columns at a time: their factors stay in the cache nearest the core
FEW = 16                    # columns fewer than these are exchanged with the rows
DOUBLE_LIMIT = 2.0**53      # quanta: sums float64 holds exactly
SUM_LIMIT = 2.0**62         # quanta: up to here sums of channels are exact, here and in `exact`
ALWAYS = -2                 # an exponent with which every other one counts: the least is -14
SCALE_EXPONENT = 8          # factors of channels are scaled by 2^8


def _scale_loop(values, scaled, largest):  # type: ignore[no-untyped-def]
    """Scales [terms, n] and finds the largest magnitude of every term."""
    for k in range(values.shape[0]):
        top = np.float32(0)
        for i in range(values.shape[1]):
            value = values[k, i] * np.float32(256)
            scaled[k, i] = value
            top = max(top, abs(value))
        largest[k] = top


def _channel_loop(left, least, right, total):  # type: ignore[no-untyped-def]
    """total[c, j] += sum over k of left[k, c] * right[k, c, j], by doubles: memory is what takes the time."""
    terms, channels, width = right.shape
    for c in range(channels):
        sums = total[c]
        for k in range(terms):
            a, limit = np.float64(left[k, c]), least[k, c]
            factors = right[k, c]
            for j in range(width):
                b = factors[j] * np.float32(256)
                product = a * b
                product += 0.5 if product >= 0 else -0.5
                sums[j] += np.int64(product) if abs(b) >= limit else 0


SCALE = TaskLoop(_scale_loop, ("float32[:,:]", "float32[:,::1]", "float32[::1]"))
CHANNELS = TaskLoop(_channel_loop, ("float32[:,::1]", "float32[:,::1]", "float32[:,:,:]", "int64[:,::1]"))
_scale, _channels, _left, _right, _plan, _outer = functions((SCALE, CHANNELS, LEFT, RIGHT, PLAN, OUTER), "exact sums")


def outer_sums(left: Floats, right: Floats) -> Doubles:
    """See `exact.outer_sums`."""
    if right.shape[1] < min(FEW, left.shape[1]):
        return outer_sums(right, left).T
    terms, columns = right.shape
    total = np.zeros((left.shape[1], columns))
    if not terms or not total.size:
        return total
    factors = np.ascontiguousarray(left.T)
    width, fours = min(WIDTH, columns), ceil_div(terms, QUAD)
    moved = np.empty((ceil_div(columns, width), terms, width), np.float32)
    largest, present = np.empty((2, terms), np.int32), np.empty(moved.shape[:2], np.uint32)
    kinds, flushed = np.empty(fours, np.uint8), np.zeros(fours, np.bool_)
    _left(factors, largest[0])
    _right(right, moved, largest[1], present)
    sizes = largest.view(np.float32)
    if _plan(sizes[0], sizes[1], kinds, flushed, present) >= DOUBLE_LIMIT:
        return exact.outer_sums(left, right)
    _outer(factors, moved, present, kinds, flushed, total)
    return total


def channel_sums(weights: Floats, columns: Floats) -> Doubles:
    """See `exact.channel_sums`."""
    if exact.LARGEST_PRODUCT * len(weights) >= SUM_LIMIT:
        return exact.channel_sums(weights, columns)
    factor, _ = _scaled(weights)
    total = np.zeros(columns.shape[1:], np.int64)
    _channels(factor, _least(factor), columns, total)
    return _in_units(total)


def _in_units(quanta: np.ndarray) -> Doubles:
    units: Doubles = quanta * exact.QUANTUM
    return units


def _scaled(values: Floats) -> tuple[Floats, Floats]:
    """The values times 2^8, and the largest magnitude of every term."""
    scaled, largest = np.empty(values.shape, np.float32), np.empty(len(values), np.float32)
    _scale(values, scaled, largest)
    return scaled, largest


def _least(scaled: Floats) -> Floats:
    """The smallest scaled right factor with which each left factor's product counts."""
    exponents = exact.engine_exponents(scaled)
    powers: Floats = np.ldexp(np.float32(1), exact.CUT + SCALE_EXPONENT - exponents)
    powers[exponents >= ALWAYS] = 0
    return powers
