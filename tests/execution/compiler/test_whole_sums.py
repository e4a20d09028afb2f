"""Quantisation that is written out, on the engine: whole steps of what was not rounded before."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from support.quantisation import quantised, stated, steps

import openane as ane
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.step_pairs import factors, step_of
from openane.ops.written_steps import NAME, two_factors
from openane.passes.order import simplify

STEP = 0.0371


@pytest.mark.parametrize(("zero", "low", "high"), [(0, 0, 255), (117, 0, 255), (-3, -128, 127), (0, -127, 127)])
def test_every_number_of_fp16_is_the_nearest_step(zero: int, low: int, high: int) -> None:
    x = np.arange(65536, dtype=np.uint16).view(np.float16)
    x = x[np.isfinite(x)].reshape(1, 2, 124, -1)
    builder = GraphBuilder()
    graph = builder.finish({"y": quantised(builder, builder.input("x", "fp16", x.shape), STEP, zero, low, high)})
    found = ane.run(ane.compile(graph), {"x": x})["y"].astype(np.float64)
    quotients = x.astype(np.float64) / np.float32(STEP)
    clear = np.abs(np.abs(quotients - np.floor(quotients)) - 0.5) > 2.0 ** -11  # of a tie: fp32 beside 1536, 22 bits
    wanted = steps(x, STEP, zero, low, high)
    assert np.mean(clear) > 0.998
    assert np.abs(found / np.float32(STEP) - wanted)[clear].max() < 255 * 2.0 ** -10, "the step and the result in fp16"


@pytest.mark.parametrize("number", [1e-3, 0.0371, 1.0, 1 / 3, -26.95, 1234.567, 65504.0])
def test_two_factors_hold_what_fp32_does(number: float) -> None:
    factors = two_factors(number)
    assert factors is not None
    assert all(float(np.float16(each)) == each for each in factors)
    assert abs(Fraction(factors[0]) * Fraction(factors[1]) / Fraction(number) - 1) < 2.0 ** -19


@pytest.mark.parametrize("number", [0.0, np.inf, 1e-12, 1e12])
def test_others_have_no_two_factors(number: float) -> None:
    assert two_factors(number) is None


def layer(groups: int, linear: bool, relu: bool) -> tuple[Graph, np.ndarray, np.ndarray]:
    """A convolution or linear layer between quantisations; its weight and bias."""
    rng = np.random.default_rng(groups + linear)
    shape = (40, 64) if linear else (2, 8, 9, 9)
    weight = rng.standard_normal((32, 64) if linear else (16, 8 // groups, 3, 3)) * 0.17
    bias = rng.standard_normal(len(weight))
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", shape), STEP, 5, -128, 127)
    more = {} if linear else {"strides": [2, 1], "pad_type": "custom", "pad": [1, 1, 1, 1], "groups": groups}
    made = builder.single("linear" if linear else "conv", x=x, weight=stated(weight), bias=stated(bias), **more)
    made = builder.single("relu", x=made) if relu else made
    return builder.finish({"y": quantised(builder, made, 0.0213, 100, 0, 255)}), weight, bias


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize(("groups", "linear"), [(1, False), (4, False), (8, False), (1, True)])
def test_sums_become_the_steps_they_are_nearest_to(groups: int, linear: bool, relu: bool) -> None:
    """In exact arithmetic, one in a thousand may differ: those nearer to a tie than weights of 22 bits tell."""
    graph, weight, bias = layer(groups, linear, relu)
    assert not any(node.op == "relu" for node in simplify(graph).nodes)
    x = np.random.default_rng(1).standard_normal(graph.inputs[0].shape).astype(np.float16)
    found = ane.run(ane.compile(graph), {"x": x}, "simulator?arithmetic=exact")["y"]
    entered = steps(x, STEP, 5, -128, 127) * np.float32(STEP)
    weight, bias = (each.astype(np.float32).astype(np.float64) for each in (weight, bias))
    sums = entered @ weight.T + bias if linear else convolved(entered, weight, bias, groups)
    wanted = steps(np.maximum(sums, 0) if relu else sums, 0.0213, 100, 0, 255)
    assert np.mean(np.rint(found / np.float32(0.0213)) != wanted) < 1e-3


def convolved(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, groups: int) -> np.ndarray:
    """A 3x3 convolution of strides 2 and 1, padded by one."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2]
    parts = [np.einsum("ncyxij,ocij->noyx", *each) for each in zip(
        np.split(views, groups, 1), np.split(weight, groups), strict=True)]
    return np.asarray(np.concatenate(parts, 1) + bias.reshape(-1, 1, 1))


def test_sums_that_others_read_stay_as_they_are() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 5, 5))
    made = builder.single("conv", x=x, weight=stated(np.ones((4, 4, 1, 1))))
    graph = builder.finish({"y": quantised(builder, made, 0.1, 0, -128, 127), "z": made})
    assert [node.op for node in simplify(graph).nodes] == ["conv", NAME]


@pytest.mark.parametrize("low", [-2000.0, 0.5])
def test_what_is_no_quantisation_is_not_taken_for_one(low: float) -> None:
    """Bounds that storing beside 1536 does not tell apart, or between two steps whose clip is no whole number."""
    builder = GraphBuilder()
    x = builder.single("round", x=builder.input("x", "fp16", (1, 4, 5, 5)))
    graph = builder.finish({"y": builder.single("clip", x=x, alpha=low, beta=3000.0)})
    assert not any(node.op == NAME for node in simplify(graph).nodes)


@pytest.mark.parametrize("second", ["tensor", "one number a channel", "constant"])
@pytest.mark.parametrize("function", ["add", "mul"])
def test_steps_of_two_tensors(function: str, second: str) -> None:
    """Sums and products of numbers that are steps themselves, each of its own size."""
    rng = np.random.default_rng(len(second))
    shape = (1, 8, 9, 9)
    other = shape if second == "tensor" else (1, 8, 1, 1)
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", shape), STEP, 5, -128, 127)
    vector = rng.standard_normal(other).astype(np.float32)
    y = stated(vector) if second == "constant" else \
        quantised(builder, builder.input("y", "fp16", other), 0.0213, 100, 0, 255)
    made = builder.single("relu", x=builder.single(function, x=y, y=x) if second == "tensor" else
                          builder.single(function, x=x, y=y))
    graph = builder.finish({"z": quantised(builder, made, 0.0457, 3, 0, 255)})
    given = {"x": rng.standard_normal(shape).astype(np.float16)}
    left, right = steps(given["x"], STEP, 5, -128, 127) * np.float32(STEP), vector
    if second != "constant":
        given["y"] = rng.standard_normal(other).astype(np.float16)
        right = steps(given["y"], 0.0213, 100, 0, 255) * np.float32(0.0213)
    found = ane.run(ane.compile(graph), given)["z"]
    wanted = steps(np.maximum(left + right if function == "add" else left * right, 0), 0.0457, 3, 0, 255)
    off = np.abs(np.rint(found / np.float32(0.0457)) - wanted)
    assert off.max() <= 1
    assert np.mean(off) < 0.01


@pytest.mark.parametrize(("x", "y"), [(0.81, 1.7), (0.0131, 0.0877), (3.0, -0.5), (1 / 3, 1 / 7)])
def test_factors_of_sums(x: float, y: float) -> None:
    made = factors(x, y, 255, 255)
    assert made is not None
    of_x, of_y, more_x, more_y = made.counts
    assert max(abs(of_x) + abs(of_y), abs(more_x) + abs(more_y), made.times) * 255 <= 2048
    each_x = made.scale * (made.ratio * of_x + more_x)
    each_y = made.scale * (made.ratio * of_y + more_y) * made.times
    off = (abs(each_x - x) + abs(each_y - y)) * 255
    assert off <= min(made.error * (1 + 1e-9) + 1e-9, 2.0 ** -12 * 255 * (abs(x) + abs(y)))


def test_what_a_rounding_states_by_default_does_not_hide_what_it_gets() -> None:
    """A pass that writes a node anew states all of its operands: those of a sum take their place all the same."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (1, 8, 9, 9)), STEP, 0, -128, 127)
    vector = rng.standard_normal((1, 8, 1, 1)).astype(np.float32)
    made = builder.single("add", x=x, y=stated(vector))
    y = builder.single(NAME, x=made, units=np.float32(1 / 0.0213), low=-128.0, high=127.0, zero=0.0,
                       scale=np.float32(0.0213), function="add", ratio=1.0)
    graph = builder.finish({"y": y})
    given = {"x": rng.standard_normal(x.shape).astype(np.float16)}
    wanted = steps(steps(given["x"], STEP, 0, -128, 127) * np.float32(STEP) + vector, 0.0213, 0, -128, 127)
    found = np.rint(ane.run(ane.compile(graph), given)["y"] / np.float32(0.0213))
    assert np.abs(found - wanted).max() <= 1
    assert np.mean(found != wanted) < 0.05


def test_steps_that_were_only_moved_are_not_rounded_again() -> None:
    """And a layer behind them counts whole steps."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((24, 36)).astype(np.float32) * 0.2
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (2, 3, 4, 9)), STEP, 5, -128, 127)
    x = quantised(builder, builder.single("transpose", x=x, perm=[0, 2, 1, 3]), STEP, 5, -128, 127)
    x = quantised(builder, builder.single("reshape", x=x, shape=[6, 36]), STEP, 5, -128, 127)
    graph = builder.finish({"y": quantised(builder, builder.single("linear", x=x, weight=stated(weight)), 0.0213, 0,
                                           -128, 127)})
    assert sum(node.op == NAME for node in simplify(graph).nodes) == 2
    given = {"x": rng.standard_normal((2, 3, 4, 9)).astype(np.float16)}
    moved = (steps(given["x"], STEP, 5, -128, 127) * np.float32(STEP)).transpose(0, 2, 1, 3).reshape(6, 36)
    wanted = steps(moved @ weight.astype(np.float64).T, 0.0213, 0, -128, 127)
    assert np.mean(np.rint(ane.run(ane.compile(graph), given)["y"] / np.float32(0.0213)) != wanted) < 0.01


@pytest.mark.parametrize("relu", [False, True])
def test_what_is_moved_is_rounded_before(relu: bool) -> None:
    """So that its sums count steps; a relu bounds them."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((24, 36)).astype(np.float32) * 0.2
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (30, 36)), STEP, 5, -128, 127)
    made = builder.single("linear", x=x, weight=stated(weight))
    made = builder.single("relu", x=made) if relu else made
    heads = builder.single("transpose", x=builder.single("reshape", x=made, shape=[30, 4, 6]), perm=[1, 2, 0])
    graph = builder.finish({"y": quantised(builder, heads, 0.0213, 0, -128, 127)})
    assert [node.op for node in simplify(graph).nodes] == [NAME, "concat", "linear", NAME, "reshape", "transpose"]
    given = {"x": rng.standard_normal((30, 36)).astype(np.float16)}
    exact = steps(given["x"], STEP, 5, -128, 127) * np.float64(np.float32(STEP)) @ weight.astype(np.float64).T
    wanted = steps(np.maximum(exact, 0) if relu else exact, 0.0213, 0, -128, 127)
    found = np.rint(ane.run(ane.compile(graph), given)["y"] / np.float32(0.0213))
    np.testing.assert_array_equal(found, wanted.reshape(30, 4, 6).transpose(1, 2, 0))


def test_what_others_read_where_it_was_moved_stays_there() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 5, 6))
    turned = builder.single("transpose", x=builder.single("sin", x=x), perm=[0, 1, 3, 2])
    graph = builder.finish({"y": quantised(builder, turned, STEP, 0, -128, 127), "z": turned})
    assert [node.op for node in simplify(graph).nodes][-2:] == ["transpose", NAME]


def test_bytes_that_are_moved_are_known_as_steps() -> None:
    """As models in the operator format move them; what multiplies them counts steps."""
    rng, builder = np.random.default_rng(1), GraphBuilder()
    inputs = {name: rng.standard_normal((6, 32)).astype(np.float16) for name in "ab"}
    sides = []
    for name in inputs:
        units = builder.single("mul", x=builder.input(name, "fp16", (6, 32)), y=stated(1 / STEP))
        moved = builder.single("add", x=builder.single("round", x=units), y=np.float16(128))
        held = builder.single("cast", x=builder.single("clip", x=moved, alpha=0.0, beta=255.0), dtype="uint8")
        heads = builder.single("transpose", x=builder.single("reshape", x=held, shape=[6, 2, 16]), perm=[1, 0, 2])
        sides.append(builder.single("sub", x=builder.single("cast", x=heads, dtype="fp16"), y=np.float16(128)))
    product = builder.single("matmul", x=sides[0], y=sides[1], transpose_y=True)
    graph = builder.finish({"y": quantised(builder, builder.single("mul", x=product, y=stated(STEP ** 2)), 0.0459, 0,
                                           -128, 127)})
    assert not any(node.op == "cast" for node in simplify(graph).nodes)
    a, b = (steps(each, STEP, 128, 0, 255).reshape(6, 2, 16).transpose(1, 0, 2) for each in inputs.values())
    exact = a @ b.transpose(0, 2, 1) * np.float64(np.float32(STEP ** 2)) / np.float32(0.0459)
    found = np.rint(ane.run(ane.compile(graph), inputs)["y"] / np.float32(0.0459))
    off = found != np.clip(np.rint(exact), -128, 127)
    assert not off[np.abs(exact % 1 - 0.5) > 5e-4].any()


def test_another_size_or_range_of_steps_is_rounded_to() -> None:
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (1, 4, 5, 5)), STEP, 0, -128, 127)
    graph = builder.finish({"y": quantised(builder, builder.single("transpose", x=x, perm=[0, 2, 1, 3]), STEP * 1.01, 0,
                                           -128, 127),
                            "z": quantised(builder, builder.single("transpose", x=x, perm=[0, 3, 1, 2]), STEP, 0,
                                           -100, 127)})
    assert sum(node.op == NAME for node in simplify(graph).nodes) == 3


def test_sums_that_count_steps_are_counted_in_nothing_else() -> None:
    """Faint sums would be made larger by a power of two, and be no sums of steps then."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (1, 8, 9, 9)), STEP, 0, -128, 127)
    weight = rng.standard_normal((8, 8, 3, 3)).astype(np.float32) * 1e-4
    made = builder.single("conv", x=x, weight=stated(weight), pad_type="valid")
    graph = builder.finish({"y": quantised(builder, made, 2.1e-5, 0, -128, 127)})
    given = {"x": rng.standard_normal(x.shape).astype(np.float16)}
    entered = steps(given["x"], STEP, 0, -128, 127) * np.float32(STEP)
    views = np.lib.stride_tricks.sliding_window_view(entered, (3, 3), (2, 3))
    wanted = steps(np.einsum("ncyxij,ocij->noyx", views, weight.astype(np.float64)), 2.1e-5, 0, -128, 127)
    found = np.rint(ane.run(ane.compile(graph), given)["y"] / np.float32(np.float16(2.1e-5)))
    assert np.mean(found != wanted) < 1e-2


@pytest.mark.parametrize(("op", "kept", "axes"), [("reduce_mean", True, [2, 3]), ("reduce_mean", False, [2, 3]),
                                                  ("reduce_sum", True, [1]), ("avg_pool", True, [2, 3])])
def test_means_of_steps_become_the_steps_they_are_nearest_to(op: str, kept: bool, axes: list[int]) -> None:
    rng = np.random.default_rng(0)
    shape, size = (2, 24, 7, 9), 0.0213 if op == "reduce_sum" else 0.0021
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", shape), STEP, 5, -128, 127)
    made = builder.single(op, x=x, kernel_sizes=[7, 9], pad_type="valid") if op == "avg_pool" else \
        builder.single(op, x=x, axes=axes, keep_dims=kept)
    graph = builder.finish({"y": quantised(builder, made, size, 3, -128, 127)})
    given = {"x": rng.standard_normal(shape).astype(np.float16)}
    entered = steps(given["x"], STEP, 5, -128, 127) * np.float32(STEP)
    total = entered.sum(tuple(axes), keepdims=kept) / (1 if op == "reduce_sum" else 63)
    found = ane.run(ane.compile(graph), given, "simulator?arithmetic=exact")["y"]
    np.testing.assert_array_equal(np.rint(found / np.float32(np.float16(size))), steps(total, size, 3, -128, 127))


@pytest.mark.parametrize("number", [3.0, -4.37, 0.0113, 11.0])
def test_one_number_is_added_in_all_of_its_digits(number: float) -> None:
    """Its whole steps behind the rounding, beside which fp16 has few digits for what is left, and too many for bounds
    that are told apart (11)."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (1, 8, 40, 40)), STEP, 5, -128, 127)
    made = builder.single("clip", x=builder.single("add", x=x, y=stated(number)), alpha=0.0, beta=6.0)
    graph = builder.finish({"y": quantised(builder, made, 0.0235, -128, -128, 127)})
    given = {"x": rng.standard_normal(x.shape).astype(np.float16)}
    entered = steps(given["x"], STEP, 5, -128, 127) * np.float32(STEP)
    wanted = steps(np.clip(entered + np.float32(number), 0, 6), 0.0235, -128, -128, 127)
    found = np.rint(ane.run(ane.compile(graph), given)["y"] / np.float32(0.0235))
    assert np.abs(found - wanted).max() <= 1
    assert np.mean(found != wanted) < (0.005 if number < 11 else 0.05)


@pytest.mark.parametrize("size", [0.0537, 0.0713, 0.101])
def test_a_vector_of_steps_is_added_in_whole_steps(size: float) -> None:
    """In fp16 beside a hundred steps one number in a hundred would be a step off."""
    rng = np.random.default_rng(5)
    vector = (rng.integers(-127, 128, 96) * size).astype(np.float32)
    builder = GraphBuilder()
    x = quantised(builder, builder.input("x", "fp16", (128, 96)), STEP, 0, -128, 127)
    graph = builder.finish({"y": quantised(builder, builder.single("add", x=x, y=stated(vector)), 0.0623, 0,
                                           -128, 127)})
    given = {"x": (rng.standard_normal((128, 96)) * 1.2).astype(np.float16)}
    found = ane.run(ane.compile(graph), given)["y"].astype(np.float64) / np.float32(0.0623)
    exact = steps(given["x"], STEP, 0, -128, 127) * float(np.float32(STEP)) + vector.astype(np.float64)
    assert np.mean(np.rint(found) != steps(exact, 0.0623, 0, -128, 127)) < 0.004


def test_steps_of_a_vector_are_found_where_it_has_some() -> None:
    whole = np.array([-90.0, 0.0, 7.0, 33.0])
    assert step_of((whole * 0.0371).astype(np.float32).astype(np.float64)) == pytest.approx(0.0371, rel=1e-6)
    assert step_of(np.random.default_rng(0).standard_normal(64)) is None
    assert step_of(np.zeros(3)) is None
