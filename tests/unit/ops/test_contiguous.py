"""Matrices that are turned in memory."""

from __future__ import annotations

import numpy as np
import pytest

from openane.ops.contiguous import BLOCK, WIDTH, contiguous


@pytest.mark.parametrize("shape", [(1, 1), (3, BLOCK), (BLOCK + 1, 7), (5, 3 * BLOCK - 1), (WIDTH + 1, 3), (0, 4), (6,),
                                   (2, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32])
def test_the_elements_lie_one_behind_the_other_and_are_the_same(shape: tuple[int, ...], dtype: type) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    for given in (array, array.T, array[..., ::2], array[::-1]):
        found = contiguous(given)
        assert found.flags.c_contiguous
        assert np.array_equal(found, given)


def test_what_lies_so_is_not_copied() -> None:
    array = np.zeros((4, 5), np.float16)
    assert contiguous(array) is array
