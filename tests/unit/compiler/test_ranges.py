"""Ranges of tensors, as they are measured of arrays and of graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openane.ops.build import GraphBuilder
from openane.passes.ranges import MANY, measured, of_array


@pytest.mark.parametrize("change", [lambda x: x, np.abs, lambda x: -np.abs(x), lambda x: x * np.float32(1e30),
                                    lambda x: x * np.float32(1e-30), np.zeros_like])
def test_arrays_of_many_numbers_have_the_range_of_their_numbers(change):
    x = change(np.random.default_rng(2).standard_normal(MANY + 77, np.float32))
    seen, wide = of_array(x), x.astype(np.float64)
    assert (seen.highest, seen.lowest) == (max(wide.max(), 0), max(-wide.min(), 0))
    assert seen.largest == np.abs(wide).max()
    assert seen.usual == pytest.approx(math.sqrt(np.mean(wide ** 2)), rel=1e-5)


def test_infinities_and_nan_are_left_out():
    x = np.full(MANY + 9, 2, np.float32)
    x[3], x[MANY // 2:MANY // 2 + 5], x[-1] = np.nan, -np.inf, -3
    assert (of_array(x).highest, of_array(x).lowest) == (2, 3)
    assert of_array(x).usual == pytest.approx(2, rel=1e-5)


def test_rearranged_tensors_have_the_range_of_what_they_are():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3, 4))
    turned = builder.single("transpose", x=builder.single("relu", x=x), perm=[2, 0, 1])
    result = builder.single("reshape", x=turned, shape=[8, 3])
    ranges = measured(builder.finish([result]), [{"x": np.arange(24).reshape(2, 3, 4) - 5.0}])
    assert [ranges[id(value)].largest for value in (x, turned, result)] == [18, 18, 18]
    assert ranges[id(result)] == ranges[id(turned)]
    assert ranges[id(result)].lowest == 0
