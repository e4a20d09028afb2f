"""Norms of an input's numbers of fp16 are the steps of their results that fp64 finds, but as good as in the middle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.quantisation import quantised, stated

import openane as ane
from openane.graph import Graph, Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.number_rows import HIGHEST, LOWEST, unit_of
from openane.ops.rounding import WHOLE
from openane.passes.order import simplify

RESULT = 0.0253
CLEAR = 2.0 ** -7
"""By how much of a step a result may be from the middle between two and be the other one."""


def normal(x: np.ndarray, axes: tuple[int, ...], epsilon: float, centred: bool) -> np.ndarray:
    wide = x.astype(np.float64)
    less = wide - wide.mean(axes, keepdims=True) if centred else wide
    return np.asarray(less / np.sqrt(np.square(less).mean(axes, keepdims=True) + float(np.float32(epsilon))))


def right(found: np.ndarray, exact: np.ndarray, clear: float = CLEAR) -> None:
    """Steps that were found are the nearest, where one is clearly nearest."""
    known = np.abs(exact % 1 - 0.5) > clear
    assert np.array_equal(found[known], np.rint(exact)[known])


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 40), extent=st.integers(8, 400), centred=st.booleans(), seed=st.integers(0, 2 ** 32 - 1),
       spread=st.sampled_from(["number", "rows", "elements"]), size=st.integers(-6, 10), away=st.integers(0, 20))
def test_rows_of_any_numbers(rows: int, extent: int, centred: bool, seed: int, spread: str, size: int,
                             away: int) -> None:
    """Deviations from 2^-6 to 2^10, some rows twenty of these away from 0, one of a single number, one far outlier."""
    rng = np.random.default_rng(seed)
    shape = {"number": (1, 1, 1), "rows": (rows, 1, 1), "elements": (1, 1, extent)}[spread]
    gain = (rng.uniform(15, 45, shape) * rng.choice([-1, 1], shape)).astype(np.float32)
    offset = (rng.standard_normal(shape) * 20).astype(np.float32)
    builder = GraphBuilder("rows")
    x = builder.input("x", "fp16", (rows, 1, extent))
    graph = builder.finish({"y": builder.single("whole_norm", x=x, gain=stated(gain), offset=stated(offset),
                                                epsilon=1e-5, centred=centred, whole=False)})
    means = rng.uniform(-away, away, (rows, 1, 1)) * centred
    numbers = ((rng.standard_normal((rows, 1, extent)) + means) * 2.0 ** size).astype(np.float16)
    numbers[-1, 0, 0] *= 4
    if rows > 1:
        numbers[0] = numbers[0, 0, 0]
    found = ane.run(ane.compile(graph), {"x": numbers}, "simulator?arithmetic=exact")["y"].astype(np.float64) - WHOLE
    exact = normal(numbers, (2,), 1e-5, centred) * gain.astype(np.float64) + offset
    wide = numbers.astype(np.float64)
    away_from = np.maximum(np.abs(wide.mean(2, keepdims=True)), 1)
    held = (np.abs(exact) < 255) & (wide.std(2, keepdims=True) * 64 > away_from)
    right(found[held], exact[held])
    assert np.isfinite(found).all()


def test_units_leave_the_numbers_that_matter_among_those_that_products_hold() -> None:
    """A unit is a deviation or as little as half as much again more."""
    for gain, offset, count in ((16.0, 0.0, 768), (40.0, 30.0, 768), (32.0, 0.0, 16), (0.0, 0.0, 10000)):
        unit = unit_of(np.array([gain, 2 * gain]), np.array([offset]), 256.0, count)
        reach = min(count ** 0.5, (256 + offset) / gain if gain else np.inf)
        assert unit in (4.0, 8.0, 16.0, 32.0)
        assert unit in (LOWEST, HIGHEST) or 96 < unit * reach <= 192


def graph_of(op: str, shape: tuple[int, ...], axes: tuple[int, ...], before: str | None = None) -> Graph:
    """A norm of an input, or of something else, quantised."""
    builder = GraphBuilder("norm", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", shape)
    x = x if before is None else builder.single(before, x=x)
    extents = shape[1] if op == "instance_norm" else tuple(shape[axis] for axis in axes)
    vectors = {name: stated(np.random.default_rng(place).uniform(0.5, 1.5, extents))
               for place, name in enumerate(("gamma", "beta")[:1 if op == "rms_norm" else 2])}
    over = {} if op == "instance_norm" else {"axes": list(axes)}
    made = builder.single(op, x=x, epsilon=1e-3, **over, **vectors)
    return builder.finish({"y": quantised(builder, made, RESULT, 128, 0, 255)})


@pytest.mark.parametrize(("op", "shape", "axes"), [
    ("layer_norm", (6, 5, 24), (2,)), ("layer_norm", (6, 5, 24), (1, 2)), ("rms_norm", (6, 5, 24), (2,)),
    ("instance_norm", (2, 3, 8, 8), (2, 3)), ("instance_norm", (2, 5, 31), (2,))])
def test_norms_of_inputs(op: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    graph = graph_of(op, shape, axes)
    assert "whole_norm" in [node.op for node in simplify(graph).nodes]
    across = (1, -1, *(1,) * (len(shape) - 2)) if op == "instance_norm" else tuple(shape[axis] for axis in axes)
    gamma, beta = (np.random.default_rng(place).uniform(0.5, 1.5, np.prod(across) if across[0] > 1 else shape[1])
                   .astype(np.float32).astype(np.float64).reshape(across) for place in (0, 1))
    x = (np.random.default_rng(9).standard_normal(shape) * 3 + 1).astype(np.float16)
    exact = normal(x, axes, 1e-3, op != "rms_norm") * gamma + (0 if op == "rms_norm" else beta)
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    right(np.rint(found / np.float32(RESULT)), np.clip(exact / np.float32(RESULT), -128, 127), 2.0 ** -9)


def test_norms_of_results_stay() -> None:
    """These were rounded to fp16 themselves; so do norms where functions need not be close."""
    assert "whole_norm" not in [node.op for node in simplify(graph_of("layer_norm", (6, 24), (1,), "tanh")).nodes]
    graph = graph_of("layer_norm", (6, 24), (1,)).with_metadata({})
    assert "whole_norm" not in [node.op for node in simplify(graph).nodes]


@pytest.mark.parametrize("centred", [True, False])
def test_variances_of_any_numbers(centred: bool) -> None:
    """Of results as well: they take no task more."""
    def square(builder: GraphBuilder, x: Value) -> Value:
        less = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, axes=[-1], keep_dims=True)) \
            if centred else x
        return builder.single("reduce_mean", x=builder.single("square", x=less), axes=[-1], keep_dims=True)

    builder = GraphBuilder("variance", {FUNCTIONS: CLOSE})
    made = square(builder, builder.single("relu", x=builder.input("x", "fp16", (400, 48))))
    graph = builder.finish({"y": quantised(builder, made, RESULT, 0, 0, 255)})
    assert "whole_spread" in [node.op for node in simplify(graph).nodes]
    x = (np.random.default_rng(4).standard_normal((400, 48)) * 2).astype(np.float16)
    wide = np.maximum(x.astype(np.float64), 0)
    exact = np.square(wide - wide.mean(1, keepdims=True) * centred).mean(1, keepdims=True) / np.float32(RESULT)
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    right(np.rint(found / np.float32(RESULT)), np.clip(exact, 0, 255), 2.0 ** -12)


@pytest.mark.parametrize("centred", [True, False])
def test_inputs_divided_by_the_root_of_steps(centred: bool) -> None:
    """One to a row, of deviations that it says and of others; where it is 0, results are numbers all the same."""
    builder, spread = GraphBuilder("quotient", {FUNCTIONS: CLOSE}), np.float32(0.0153)
    x = builder.input("x", "fp16", (256, 40))
    v = quantised(builder, builder.input("v", "fp16", (256, 1)), float(spread), 0, 0, 255)
    less = builder.single("sub", x=x, y=builder.single("reduce_mean", x=x, axes=[-1], keep_dims=True)) if centred else x
    made = builder.single("real_div", x=less, y=builder.single("sqrt", x=v))
    graph = builder.finish({"y": quantised(builder, made, RESULT, 128, 0, 255)})
    assert "whole_norm" in [node.op for node in simplify(graph).nodes]
    whole = np.arange(256)[:, None]
    given = {"x": np.random.default_rng(5).standard_normal((256, 40)).astype(np.float16),
             "v": (whole * spread).astype(np.float16)}
    found = ane.run(ane.compile(graph), given, "simulator?arithmetic=exact")["y"].astype(np.float64)
    numbers = given["x"].astype(np.float64)
    numbers = numbers - numbers.mean(1, keepdims=True) * centred
    right(np.rint(found / np.float32(RESULT))[1:],
          np.clip(numbers[1:] / np.sqrt(whole[1:] * np.float64(spread)) / np.float32(RESULT), -128, 127), 2.0 ** -8)
    assert np.isfinite(found[0]).all()
