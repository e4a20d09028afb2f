"""Large arrays computed part by part."""

from __future__ import annotations

import numpy as np
import pytest

from openane.ops.blocks import NUMBERS, elementwise, outer_parts

SHAPES = [((), ()), ((5,), (0,)), ((3 * NUMBERS,), (0,)), ((2, 3, NUMBERS // 2), (1,)), ((2, 7, 300, 40), (-1,)),
          ((1, NUMBERS + 1, 3), (2, 0)), ((4, 0, 3), (2,))]


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_parts_cover_an_array_once_and_keep_axes_whole(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x, counts = np.zeros(shape), np.zeros(shape, np.int64)
    for part, target in outer_parts(x, counts, axes):
        assert part.shape == target.shape
        assert all(part.shape[axis] == x.shape[axis] for axis in axes)
        target[...] += 1
    assert (counts == 1).all()


def test_parts_are_small_where_the_other_axes_allow_it() -> None:
    x = np.zeros((3, 700, 8, 100), np.float32)
    assert max(part.size for part, _ in outer_parts(x, x, (3,))) <= NUMBERS


@pytest.mark.parametrize("size", [1, NUMBERS, 2 * NUMBERS + 3])
def test_functions_of_parts_are_those_of_the_whole(size: int) -> None:
    x = np.linspace(-2, 2, size, dtype=np.float32).reshape(1, size)
    made = elementwise(np.square, x)
    assert made.dtype == np.float32
    assert np.array_equal(made, np.square(x.astype(np.float64)).astype(np.float32))
