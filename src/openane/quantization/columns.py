"""A scale for each input of a weight beside that for each output, so that rows round to finer steps.

A row's step is a share of its largest number. Where that stands in a column of large numbers, which its input makes
small, the column is divided by a power of two before rows are rounded: all rows that it was the largest of get finer
steps, at the price of a coarser one for it. The scales are those of the least error expected: of the sum of the rows'
squared steps, times what an error of each column shows in the results, times its scale squared.
"""

from __future__ import annotations

import numpy as np

FEWEST = 8
"""Outputs from which on scales for inputs are worth their bytes."""
ROUNDS = 120
RATE = 0.2
SQUARINGS = 4
"""The largest number of a row is made smooth by a norm of so many powers of two."""
RANGE = 8
"""Scales are 2 to the power of at most that, either way, so that fp16 holds what is divided."""


def column_scales(rows: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """What numbers of each column are multiples of, beside the scales of rows: powers of two [groups, inputs], for
    matrices [groups, outputs, inputs] whose columns' errors show in results as `shown` [groups, inputs] says, each
    squared."""
    if rows.shape[1] < FEWEST:
        return np.ones(shown.shape)
    return np.stack([_balanced(np.abs(matrix).astype(np.float32), each) for matrix, each in zip(rows, shown,
                                                                                               strict=True)])


def _balanced(sizes: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """The scales of one matrix of magnitudes, found by steps against the gradient, each no longer than a rate."""
    sizes = sizes[sizes.any(1)]
    exponents = np.zeros(sizes.shape[1])
    if not sizes.size or not shown.any():
        return np.exp2(exponents)
    best, least, speed, spread = exponents, np.inf, exponents, exponents
    for turn in range(ROUNDS):
        each = sizes * np.exp2(-exponents).astype(np.float32)
        largest = each.max(1)
        errors = shown * np.exp2(2 * exponents)
        expected = float(np.square(largest.astype(float)).sum() * errors.sum())
        if expected < least:
            best, least = exponents, expected
        slope = 2 * errors / errors.sum() - _decisive(each, largest)
        speed, spread = 0.9 * speed + 0.1 * slope, 0.99 * spread + 0.01 * slope ** 2
        length = np.sqrt(spread / (1 - 0.99 ** (turn + 1))) + 1e-9
        exponents = exponents - 1.44 * RATE * (1 - turn / ROUNDS) * speed / (1 - 0.9 ** (turn + 1)) / length
    whole = np.rint(best - best.mean())
    return np.asarray(np.exp2(np.clip(whole, -RANGE, RANGE)))


def _decisive(each: np.ndarray, largest: np.ndarray) -> np.ndarray:
    """Twice the share each column has in the sum of the rows' squared steps."""
    powers = each / largest[:, None]
    for _ in range(SQUARINGS):
        powers = powers * powers
    total = powers.sum(1)
    weights = np.square(largest.astype(float)) * total.astype(float) ** (2 / 2 ** SQUARINGS)
    return np.asarray(2 * ((weights / total) @ powers) / weights.sum())
