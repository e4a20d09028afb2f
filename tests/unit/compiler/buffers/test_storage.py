"""The constant section while it is made: where pieces go, which are one, and what becomes of them all."""

from __future__ import annotations

import numpy as np
import pytest

from openane.chips import get_chip
from openane.compiler.buffers.storage import KEPT, ConstantPool
from openane.program.verify.container import read_only

LIMITS = get_chip("h13").limits
STEP = LIMITS.memory_alignment


def counting(place: np.ndarray) -> None:
    """Writes 1, 2, 3 ..., which every piece of one size then is."""
    assert not place.any(), "a piece is shown zeros"
    place[:] = np.arange(1, len(place) + 1)


@pytest.mark.parametrize("expected", [0, 3 * KEPT])
def test_pieces_lie_at_aligned_offsets_with_zeros_between(expected: int) -> None:
    pool = ConstantPool(LIMITS, expected)
    sizes = (5, STEP + 1, 2 * KEPT)
    rng = np.random.default_rng(0)
    pieces = [rng.integers(1, 256, size, np.uint8).tobytes() for size in sizes]
    offsets = [pool.add(piece) for piece in pieces]
    assert offsets == [0, STEP, 3 * STEP]
    data = pool.taken()
    assert read_only(data)
    assert bytes(data) == b"".join(piece.ljust(-(-size // STEP) * STEP, b"\0")
                                   for piece, size in zip(pieces[:2], sizes[:2], strict=True)) + pieces[2]


def test_equal_pieces_of_one_owner_are_one_and_leave_zeros_behind() -> None:
    pool = ConstantPool(LIMITS)
    first = pool.fill(100, counting, "a")
    assert pool.fill(100, counting, "a") == first
    other = pool.fill(100, counting, "b")
    assert other > first
    assert pool.fill(200, counting, "a") == other + 2 * STEP
    data = bytes(pool.taken())
    assert data[first:first + 100] == data[other:other + 100]


def test_pieces_that_differ_in_their_middle_are_two() -> None:
    pool = ConstantPool(LIMITS)
    plain, other = bytes(1000), bytes(500) + b"\1" + bytes(499)
    assert pool.add(plain) == 0
    assert pool.add(other) != 0
    assert pool.add(plain) == 0
