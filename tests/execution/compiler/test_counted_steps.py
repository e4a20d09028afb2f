"""Sums, averages, gains and interpolations of quantised tensors are the steps they are nearest to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.quantisation import quantised, stated, steps

import openane as ane
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.step_factors import NEAR, factors
from openane.ops.written_steps import stated_of
from openane.passes.order import simplify

STEP, OTHER, RESULT, ZERO = 0.0371, 0.0253, 0.0457, 121
Build = Callable[[GraphBuilder, Value], Value]


def between(build: Build, shape: tuple[int, ...], step: float = RESULT) -> Graph:
    """What is built of a quantised input, quantised."""
    builder = GraphBuilder("between")
    x = quantised(builder, builder.input("x", "fp16", shape), STEP, ZERO, 0, 255)
    return builder.finish({"y": quantised(builder, build(builder, x), step, 128, 0, 255)})


def found_and_input(graph: Graph, step: float = RESULT) -> tuple[np.ndarray, np.ndarray]:
    """The results in steps, and the input's steps."""
    [given] = graph.inputs
    x = np.random.default_rng(5).standard_normal(given.shape).astype(np.float16)
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"]
    return np.rint(found.astype(np.float64) / np.float32(step)), steps(x, STEP, ZERO, 0, 255)


def nearest(exact: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(np.rint(exact), -128, 127))


def clear(exact: np.ndarray, by: float = 2e-3) -> np.ndarray:
    """Where a result is not as good as in the middle between two steps."""
    return np.asarray(np.abs(exact % 1 - 0.5) > by)


@pytest.mark.parametrize("function", ["add", "sub"])
def test_sums_of_two_tensors(function: str) -> None:
    rng, builder, shape = np.random.default_rng(7), GraphBuilder("sum"), (1, 8, 40, 40)
    sizes = {"a": STEP, "b": OTHER}
    x, y = (quantised(builder, builder.input(name, "fp16", shape), step, ZERO, 0, 255) for name, step in sizes.items())
    graph = builder.finish({"y": quantised(builder, builder.single(function, x=x, y=y), RESULT, 128, 0, 255)})
    inputs = {name: rng.standard_normal(shape).astype(np.float16) for name in sizes}
    found = ane.run(ane.compile(graph), inputs, "simulator?arithmetic=exact")["y"]
    a, b = (steps(inputs[name], step, ZERO, 0, 255) * np.float64(np.float32(step)) for name, step in sizes.items())
    exact = (a + (b if function == "add" else -b)) / np.float32(RESULT)
    off = np.rint(found.astype(np.float64) / np.float32(RESULT)) != nearest(exact)
    assert not off[clear(exact)].any()
    assert off.mean() < 1e-3, "one number of fp16 for each operand makes another step of 3 in 1000"


@pytest.mark.parametrize(("most_x", "most_y", "worst"), [(128, 128, 8 * NEAR), (255, 128, 16 * NEAR),
                                                         (255, 255, 64 * NEAR)])
def test_factors_are_near_to_what_they_stand_for(most_x: int, most_y: int, worst: float) -> None:
    rng = np.random.default_rng(3)
    for x, y in rng.uniform(0.1, 1.5, (30, 2)) * [1, -1]:
        made = factors(float(x), float(y), most_x, most_y)
        assert made is not None
        a, b, c, d = made.counts
        numbers = made.scale * (made.ratio * a + c), made.scale * (made.ratio * b + d)
        assert abs(numbers[0] - x) * most_x + abs(numbers[1] - y) * most_y <= made.error < worst
        assert max(abs(a) * most_x + abs(b) * most_y, abs(c) * most_x + abs(d) * most_y) <= 2048
        assert all(float(np.float16(number)) == number for number in (made.scale, made.ratio))


@pytest.mark.parametrize("shape", [(2, 6, 9), (1, 6, 9, 9), (1, 3, 4, 5, 6), (7, 24)])
def test_a_batch_norm_by_itself(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    gain, offset = rng.uniform(0.4, 1.7, shape[1]).astype(np.float32), rng.standard_normal(shape[1]).astype(np.float32)

    def norm(builder: GraphBuilder, x: Value) -> Value:
        if len(shape) == 2:
            return builder.single("add", x=builder.single("mul", x=x, y=stated(gain)), y=stated(offset))
        return builder.single("batch_norm", x=x, mean=np.zeros(shape[1], np.float16),
                              variance=np.ones(shape[1], np.float16), gamma=stated(gain), beta=stated(offset),
                              epsilon=0.0)

    found, x = found_and_input(between(norm, shape))
    across = (-1, *(1,) * (len(shape) - 2))
    exact = (x * np.float64(np.float32(STEP)) * gain.reshape(across) + offset.reshape(across)) / np.float32(RESULT)
    assert np.array_equal(found[clear(exact)], nearest(exact)[clear(exact)])


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize("kernel", [2, 3])
def test_averages_of_windows(kernel: int, exclude: bool) -> None:
    """With the even step in the middle between two, and each window's own count."""
    def pool(builder: GraphBuilder, x: Value) -> Value:
        return builder.single("avg_pool", x=x, kernel_sizes=[kernel] * 2, strides=[1, 1], pad_type="custom",
                              pad=[1, 1, 1, 1], exclude_padding_from_average=exclude)

    graph = between(pool, (1, 5, 12, 12), STEP)
    found, x = found_and_input(graph, STEP)
    assert [node.op for node in simplify(graph).nodes] == ["nearest_steps", "conv", "nearest_steps"]
    padded, ones = (np.pad(each, ((0, 0), (0, 0), (1, 1), (1, 1))) for each in (x, np.ones_like(x)))
    views = [np.lib.stride_tricks.sliding_window_view(each, (kernel, kernel), (2, 3)).sum((4, 5))
             for each in (padded, ones)]
    exact = views[0] / (views[1] if exclude else kernel ** 2)
    assert np.array_equal(found, nearest(exact))
    assert np.any(exact % 1 == 0.5) == (kernel == 2 or exclude)


def test_an_interpolation_to_twice_the_extent() -> None:
    weights = np.zeros((14, 7), np.float16)
    for place in range(14):
        at = min(max((place + 0.5) / 2 - 0.5, 0), 6)
        weights[place, int(at)] += 1 - at % 1
        weights[place, min(int(at) + 1, 6)] += at % 1

    def resize(builder: GraphBuilder, x: Value) -> Value:
        for _ in range(2):
            x = builder.single("linear", x=builder.single("transpose", x=x, perm=[0, 1, 3, 2]), weight=weights)
        return x

    graph = between(resize, (1, 4, 7, 7), STEP)
    found, x = found_and_input(graph, STEP)
    assert np.array_equal(found, nearest(weights @ x @ weights.T))


def test_a_product_with_a_constant_of_whole_steps() -> None:
    whole = np.arange(1, 11) * np.float32(0.0117)
    found, x = found_and_input(between(lambda builder, x: builder.single("mul", x=x, y=stated(whole)), (30, 10), 0.004),
                               0.004)
    exact = x * np.float64(np.float32(STEP)) * whole / np.float32(0.004)
    assert np.array_equal(found[clear(exact)], nearest(exact)[clear(exact)])


def test_a_function_without_results_for_some_steps() -> None:
    """Of numbers that a root has no result for, none occurs: a table of the others stands for it."""
    builder, step, result = GraphBuilder("root"), np.float32(2 / 255), np.float32(1.5 / 255)
    x = quantised(builder, builder.input("x", "fp16", (1, 256)), float(step), 0, -128, 127)
    graph = builder.finish({"y": quantised(builder, builder.single("sqrt", x=builder.single("add", x=x, y=stated(0.6))),
                                           float(result), 0, -128, 127)})
    numbers = np.linspace(-0.55, 0.9, 256).astype(np.float16)[None]
    found = ane.run(ane.compile(graph), {"x": numbers}, "simulator?arithmetic=exact")["y"].astype(np.float64) / result
    wanted = np.clip(np.rint(np.sqrt(np.rint(numbers / step) * step + np.float32(0.6)) / result), -128, 127)
    assert np.abs(np.rint(found) - wanted).max() <= 1


@pytest.mark.parametrize("gains", [(), ("gamma",), ("gamma", "beta")])
def test_norms_over_planes_round_less_on_the_way(gains: tuple[str, ...]) -> None:
    """Their input is exact, and what they do last is rounded to steps at once: their mean and root are fp16."""
    rng = np.random.default_rng(4)
    vectors = {"gamma": rng.uniform(0.5, 1.5, 48), "beta": rng.standard_normal(48)}
    given = {name: vectors[name].astype(np.float16) for name in gains}
    graph = between(lambda builder, x: builder.single("layer_norm", x=x, axes=[1], epsilon=1e-5, **given), (1, 48, 64),
                    0.025)
    found, x = found_and_input(graph, 0.025)
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5 / np.float32(STEP) ** 2)
    exact = (normal * given.get("gamma", np.ones(1))[:, None] + given.get("beta", np.zeros(1))[:, None]) \
        / np.float32(0.025)
    off = np.abs(found - nearest(exact))
    assert off.max() <= 1
    assert np.mean(off > 0) < 0.014, "of numbers of fp16, and with a sum in fp16, another step of 2 in 100"


def test_a_product_of_numbers_is_rounded_once() -> None:
    builder = GraphBuilder("product")
    x, y = (builder.input(name, "fp16", (4, 100)) for name in "xy")
    graph = builder.finish({"z": quantised(builder, builder.single("mul", x=x, y=y), RESULT, 128, 0, 255)})
    assert [node.op for node in simplify(graph).nodes] == ["nearest_steps"]
    rng = np.random.default_rng(6)
    inputs = {name: rng.standard_normal((4, 100)).astype(np.float16) for name in "xy"}
    found = ane.run(ane.compile(graph), inputs, "simulator?arithmetic=exact")["z"].astype(np.float64)
    exact = inputs["x"].astype(np.float64) * inputs["y"] / np.float32(RESULT)
    off = np.rint(found / np.float32(RESULT)) != nearest(exact)
    assert not off[clear(exact, 1e-3)].any()


@pytest.mark.parametrize(("channels", "size", "parts"),
                         [(2, 0.9, 16), (24, 2.5, 8), (400, 2.5, 4), (2000, 2.5, 2), (2000, 8.0, 1)])
def test_sums_are_added_in_parts_of_a_step(channels: int, size: float, parts: int) -> None:
    """As fine ones as every sum of the layer has room for, one of all largest inputs too."""
    rng = np.random.default_rng(channels)
    weight = (rng.standard_normal((6, channels)) * size / channels ** 0.5).astype(np.float32)
    bias = rng.standard_normal(6).astype(np.float32)
    graph = between(lambda builder, x: builder.single("linear", x=x, weight=stated(weight), bias=stated(bias)),
                    (60, channels))
    [sums] = [node for node in simplify(graph).nodes if node.op == "nearest_steps" and "units" not in node.operands]
    assert stated_of(sums, "parts") == parts
    x = rng.standard_normal(graph.inputs[0].shape).astype(np.float16)
    x[:6], x[6:12] = np.sign(weight) * 100, -np.sign(weight) * 100
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    counted = steps(x, STEP, ZERO, 0, 255) * np.float64(np.float32(STEP))
    exact = (counted @ weight.astype(np.float64).T + bias) / np.float32(RESULT)
    off = np.rint(found / np.float32(RESULT)) != nearest(exact)
    assert not off[clear(exact, 6e-5 * (channels / 24) ** 0.5 / parts + 1e-5)].any()


def test_steps_of_another_size_are_counted_of_those_there_are() -> None:
    """And not of numbers of fp16, which are up to a twentieth of a finer step off."""
    builder, shape = GraphBuilder("again"), (1, 256)
    x = quantised(builder, builder.input("x", "fp16", shape), OTHER, 0, -128, 127)
    graph = builder.finish({"y": quantised(builder, builder.single("relu", x=x), OTHER * 0.4987, -128, -128, 127)})
    assert [node.op for node in simplify(graph).nodes] == ["nearest_steps", "nearest_steps"]
    whole = np.arange(-128, 128)
    found = ane.run(ane.compile(graph), {"x": (whole * OTHER).astype(np.float16)[None]})["y"].astype(np.float64)
    wanted = steps(np.maximum(whole, 0) * np.float64(np.float32(OTHER)), OTHER * 0.4987, -128, -128, 127)
    assert np.array_equal(np.rint(found[0] / np.float32(OTHER * 0.4987)), wanted)
