"""Matrices turned: numpy reads a whole line of the processor's cache for each number of a column, and where columns are
a multiple of pages apart it has forgotten the line before the next number of it is asked for."""

from __future__ import annotations

import numpy as np

BLOCK, WIDTH = 256, 1024
"""Rows that are turned at a time, as each is written to another page, and columns, as many as stay in the processor's
cache."""
APART = 16
"""Numbers between the rows of a block, so that these do not lie a multiple of pages apart."""


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array with its elements one behind the other in the order of its dimensions, as numpy's `ascontiguousarray`:
    itself where they are, and quickly where it is a matrix that lies column by column."""
    if array.ndim != 2 or array.flags.c_contiguous or not array.flags.f_contiguous:
        return np.ascontiguousarray(array)
    rows, result = array.T, np.empty(array.shape, array.dtype)
    block = np.empty((min(BLOCK, len(rows)), min(WIDTH, len(array)) + APART), array.dtype)
    for left in range(0, len(array), WIDTH):
        for start in range(0, len(rows), BLOCK):
            part = rows[start:start + BLOCK, left:left + WIDTH]
            held = block[:part.shape[0], :part.shape[1]]
            held[:] = part
            result[left:left + WIDTH, start:start + BLOCK] = held.T
    return result
