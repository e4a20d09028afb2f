"""The multiply-accumulate rule compiled to machine code: the sums of `exact`, bit for bit, about ten times as fast.

The one module that imports numba; importing it compiles the loops below or takes them from numba's cache (beside this
file, or in the user's cache directory where that cannot be written). One thread, no state; the interpreter is not
held while sums are made.

How it is made fast. Scaled by 2^8 each, two fp16 numbers have a float32 product that is exact and counts quanta of
2^-16 in at most 22 bits. Half a quantum more in its own direction and the fraction dropped is rounding ties away; that
addition is exact below 2^23, and beyond it leaves the product, a multiple of 4, as it is. Whether a product counts
depends on the size of the right factor alone, once the exponent of the left one is known. Sums of `DEPTH` products
are kept in 32 bits where they fit, in 64 otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openane.simulator.arithmetic import exact
from openane.simulator.arithmetic.half import Doubles, Floats

try:
    from numba import config, njit
except ImportError as error:
    raise ImportError(f"compiled exact arithmetic needs numba: pip install 'openane[fast]' ({error})") from error
if getattr(config, "DISABLE_JIT", False):
    raise ImportError("numba is told not to compile (NUMBA_DISABLE_JIT), so that it would only be slow")

DEPTH = 64                  # products between two additions to the sums
WIDTH = 256                 # columns at a time: their factors stay in the cache nearest the core
NARROW_LIMIT = 2.0**31      # quanta: what 32 bits hold
SUM_LIMIT = 2.0**62         # quanta: up to here sums are exact, here and in `exact`
ALWAYS = -2                 # an exponent with which every other one counts: the least is -14
SCALE_EXPONENT = 8          # factors are scaled by 2^8


def _scale_loop(values, scaled, largest):  # type: ignore[no-untyped-def]
    """Scales [terms, n] and finds the largest magnitude of every term."""
    for k in range(values.shape[0]):
        top = np.float32(0)
        for i in range(values.shape[1]):
            value = values[k, i] * np.float32(256)
            scaled[k, i] = value
            top = max(top, abs(value))
        largest[k] = top


# decisions: loops within loops are what is compiled; a call in the innermost costs more than it does
def _outer_loop(left, least, right, wide, total):  # type: ignore[no-untyped-def]
    """total[i, j] += sum over k; the block of columns outermost, so that its factors are read from the cache."""
    terms, rows = left.shape
    half = np.float32(0.5)
    narrow_sums = np.empty(WIDTH, np.int32)
    for block in range(0, right.shape[1], WIDTH):
        count = min(WIDTH, right.shape[1] - block)
        for part in range(wide.size):
            first, last = part * DEPTH, min((part + 1) * DEPTH, terms)
            for i in range(rows):
                sums = total[i, block:block + count]
                if wide[part]:
                    for k in range(first, last):
                        for j in range(count):
                            b = right[k, block + j]
                            product = np.float64(left[k, i]) * b
                            product += 0.5 if product >= 0 else -0.5
                            sums[j] += np.int64(product) if abs(b) >= least[k, i] else 0
                    continue
                for j in range(count):
                    narrow_sums[j] = 0
                for k in range(first, last):
                    a, limit = left[k, i], least[k, i]
                    if a == 0:
                        continue
                    factors = right[k, block:block + count]
                    for j in range(count):
                        b = factors[j]
                        rounded = a * b
                        rounded += half if rounded >= 0 else -half
                        narrow_sums[j] += np.int32(rounded) if abs(b) >= limit else np.int32(0)
                for j in range(count):
                    sums[j] += narrow_sums[j]


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


def _compiled(signature: str, loop: Any) -> Any:
    """The loop for one signature, from the cache where there is one."""
    compiler: Any = njit
    try:
        return compiler(signature, nogil=True, cache=True)(loop)
    except RuntimeError:  # no folder can be written
        return compiler(signature, nogil=True)(loop)


_scale = _compiled("void(float32[:,:], float32[:,::1], float32[::1])", _scale_loop)
_outer = _compiled("void(float32[:,::1], float32[:,::1], float32[:,::1], boolean[::1], int64[:,::1])", _outer_loop)
_channels = _compiled("void(float32[:,::1], float32[:,::1], float32[:,:,:], int64[:,::1])", _channel_loop)


def outer_sums(left: Floats, right: Floats) -> Doubles:
    """See `exact.outer_sums`."""
    if left.shape[1] > right.shape[1]:
        return outer_sums(right, left).T
    factor, left_largest = _scaled(left)
    other, right_largest = _scaled(right)
    bounds = left_largest.astype(np.float64) * right_largest + 1
    if bounds.sum() >= SUM_LIMIT:
        return exact.outer_sums(left, right)
    total = np.zeros((left.shape[1], right.shape[1]), np.int64)
    wide = np.add.reduceat(bounds, np.arange(0, len(bounds), DEPTH)) >= NARROW_LIMIT
    _outer(factor, _least(factor), other, wide, total)
    return _in_units(total)


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
