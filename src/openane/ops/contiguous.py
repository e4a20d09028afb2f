"""Matrices turned: numpy reads a whole line of the processor's cache for each number of a column, and where columns are
a multiple of pages apart it has forgotten the line before the next number of it is asked for."""

from __future__ import annotations

import numpy as np

BLOCK = 64
"""Rows that are turned at a time: some lines of the processor's cache of fp16."""
APART = 16
"""Numbers between the rows of a block, so that these do not lie a multiple of pages apart."""


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array with its elements one behind the other in the order of its dimensions, as numpy's `ascontiguousarray`:
    itself where they are, and quickly where it is a matrix that lies column by column."""
    if array.ndim != 2 or array.flags.c_contiguous or not array.flags.f_contiguous:
        return np.ascontiguousarray(array)
    columns, result = array.T, np.empty(array.shape, array.dtype)
    block = np.empty((BLOCK, len(array) + APART), array.dtype)[:, :len(array)]
    for start in range(0, len(columns), BLOCK):
        part = columns[start:start + BLOCK]
        block[:len(part)] = part
        result[:, start:start + BLOCK] = block[:len(part)].T
    return result
