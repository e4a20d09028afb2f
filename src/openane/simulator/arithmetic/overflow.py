"""The accumulator's range while a sum is made: +-2^15, also for what has been added so far.

Measured on M1: a sum becomes infinite at 2^15 at any length, also where a later term would bring it back. In which
order the engine adds is not known; here terms count in the order they are given, which is an assumption.
"""

from __future__ import annotations

import numpy as np

from openane.simulator.arithmetic import exact
from openane.simulator.arithmetic.half import Doubles, Floats

SHARE = 1 << 20     # products looked at together
MARGIN = 1 - 2e-6   # float32 sums of magnitudes may be this much too small, K up to 2^16 in blocks
QUANTA = exact.SATURATION / exact.QUANTUM


def overflow_inside(sums: Doubles, left: Floats, right: Floats) -> None:
    """Makes sums[i, j] infinite where the running sum over k of left[k, i] * right[k, j] reaches 2^15, in place.

    Which sign it reaches first decides. `left` [K, I] and `right` [K, J] are finite.
    """
    if _stays_small(left, right):
        return
    magnitudes = np.abs(left).T @ np.abs(right)
    rows, columns = np.nonzero(magnitudes >= exact.SATURATION * MARGIN - len(left) * exact.QUANTUM)
    share = max(1, SHARE // len(left))
    for start in range(0, len(rows), share):
        i, j = rows[start:start + share], columns[start:start + share]
        _mark(sums, (i, j), left[:, i], right[:, j])


def overflow_inside_channels(sums: Doubles, weights: Floats, columns: Floats) -> None:
    """The same for sums[c, j] over k of weights[k, c] * columns[k, c, j]."""
    if _stays_small(weights, columns):
        return
    terms, channels, width = columns.shape
    share = max(1, SHARE // terms)
    for c in range(channels):
        for start in range(0, width, share):
            j = np.arange(start, min(start + share, width))
            _mark(sums, (np.full(len(j), c), j), np.repeat(weights[:, c, None], len(j), axis=1), columns[:, c, j])


def _stays_small(left: Floats, right: Floats) -> bool:
    """Whether no sum of so many products can reach the limit, or a single product is all there is."""
    if len(left) < 2 or not left.size or not right.size:
        return True
    largest = [max(float(values.max()), -float(values.min())) for values in (left, right)]
    return len(left) * (largest[0] * largest[1] + exact.QUANTUM) < exact.SATURATION


def _mark(sums: Doubles, where: tuple[np.ndarray, np.ndarray], left: Floats, right: Floats) -> None:
    """`left` and `right` are [K, n] factors of the n sums at `where`."""
    running = np.cumsum(exact.rounded_products(left, right), axis=0)
    beyond = np.abs(running) >= QUANTA
    first = beyond.argmax(axis=0)
    lanes = np.flatnonzero(beyond.any(axis=0))
    signs = running[first[lanes], lanes]
    sums[where[0][lanes], where[1][lanes]] = np.copysign(np.inf, signs)
