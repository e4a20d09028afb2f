"""How tensors are spread over the banks of the L2 scratchpad."""

from __future__ import annotations

from math import gcd

CELL = 16
"""Bytes of a bank's line; L2 addresses and strides are multiples of it."""
BANKS = 64
ROWS = 16
"""Rows that are read at a time, at most."""


def row_pad(line: int, rows: int = ROWS) -> int:
    """Rule: the bytes each of `rows` rows of `line` bytes is padded by in L2 so that they do not share banks.

    There are 64 banks of 16 bytes (inferred): up to 16 rows must begin in different ones, and no row in the bank beside
    the row before. That gives the pitch of every tensor and planar ring of several rows in the recorded programs of
    Apple's compiler: rows of 1, 8, 32 and 96 cells are padded by one, of 64, 128 and 4096 by two, of 84 and two rows of
    8 by none.
    """
    cells = -(-line // CELL)
    together = min(rows, ROWS)
    return CELL * next(pad for pad in range(BANKS) if BANKS // gcd(cells + pad, BANKS) >= together
                       and (cells + pad) % BANKS not in (1, BANKS - 1))
