"""Sums of steps and a constant are the nearest step for every step there is, products as far as one factor allows."""

from __future__ import annotations

import numpy as np
import pytest
from support.quantisation import quantised, stated

import openane as ane
from openane.ops.build import GraphBuilder
from openane.ops.rounding import WHOLE
from openane.ops.step_ties import product_units, ties
from openane.ops.written_steps import two_factors
from openane.passes.order import simplify

UNDECIDED = 2.0 ** -15
"""How near the middle between two steps fp32 itself may find either."""


@pytest.mark.parametrize("function", ["add", "sub"])
@pytest.mark.parametrize("step", [0.0371, 0.0917, 0.0214])
@pytest.mark.parametrize("whole", [True, False])
def test_every_sum_with_a_constant(whole: bool, step: float, function: str) -> None:
    """All of 256 steps and each of 160 numbers, whole steps of some size or any."""
    rng, result = np.random.default_rng(3), np.float32(0.0457)
    vector = (np.rint(rng.uniform(-127, 127, 160)) * 0.0193 if whole else rng.standard_normal(160)).astype(np.float32)
    builder = GraphBuilder("sum")
    x = quantised(builder, builder.input("x", "fp16", (256, 160)), step, 121, 0, 255)
    made = builder.single(function, x=x, y=stated(vector))
    graph = builder.finish({"y": quantised(builder, made, float(result), 128, 0, 255)})
    numbers = np.repeat(np.arange(-121.0, 135)[:, None], 160, 1) * np.float64(np.float32(step))
    found = ane.run(ane.compile(graph), {"x": numbers.astype(np.float16)}, "simulator?arithmetic=exact")["y"]
    exact = (numbers + (vector.astype(np.float64) if function == "add" else -vector.astype(np.float64))) / result
    clear = np.abs(exact % 1 - 0.5) > UNDECIDED
    assert clear.mean() > 0.999
    assert np.array_equal(np.rint(found.astype(np.float64) / result)[clear],
                          np.clip(np.rint(exact), -128, 127)[clear])


def test_a_sum_that_one_task_finds_takes_no_other() -> None:
    builder = GraphBuilder("sum")
    x = quantised(builder, builder.input("x", "fp16", (4, 32)), 0.0371, 121, 0, 255)
    made = builder.single("add", x=x, y=stated(np.full(32, 3 * 0.0371)))
    graph = builder.finish({"y": quantised(builder, made, 0.0371, 128, 0, 255)})
    assert "add" not in [node.op for node in simplify(graph).nodes]


@pytest.mark.parametrize("units", [0.0082417046, 1.5 / 182 * (1 - 2e-6), 1.5 / 182 * (1 + 4e-6)])
def test_products_near_the_middle(units: float) -> None:
    """Ranges that were measured leave products by the largest constant near the middle between two steps."""
    first, second = np.arange(-128.0, 128), np.array([91.0, 105.0, 126.0])
    near = ties(first, second, lambda x, y: x * y * units)
    x, y = near.numbers

    def wrong(number: float) -> int:
        factors = two_factors(float(np.float32(number)))
        assert factors is not None
        left, right = (np.float32(each) for each in factors)
        made = (left * (x * y).astype(np.float32) * right + np.float32(WHOLE)).astype(np.float16)
        return int(np.count_nonzero(made.astype(np.float64) - WHOLE != near.steps))

    assert x.size > 70
    assert wrong(product_units(units, first, second)) <= wrong(units) // 2 < wrong(units)


def test_of_factors_those_that_miss_the_fewest_are_taken_and_of_such_the_first() -> None:
    near = ties(np.arange(-9.0, 10), np.ones(1), lambda x, y: x * 0.4999)
    assert near.steps.size == 10, "half of odd numbers"
    for tried, best in (((0.5, 0.499, 0.4), 0.499), ((0.499, 0.4989), 0.499), ((0.51, 0.5), 0.51)):
        assert near.best(tried, lambda units: lambda x, y: x * units) == best
