"""Gains and offsets per channel disappear into the weights before them, whatever the grouping."""

import numpy as np
import pytest

from openane.graph import RoundedArray
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.fold_affine import fold_affine
from openane.passes.folded_once import folded_once
from openane.passes.order import simplify


@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("bias", [False, True])
def test_affine_nodes_disappear(op, groups, bias):
    rng = np.random.default_rng(groups)
    shape = (6, 12 // groups, 3, 2) if op == "conv_transpose" else (12, 6 // groups, 3, 2)
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (2, 6, 7, 8))
    y = builder.single(op, x=x, weight=rng.standard_normal(shape).astype(np.float32), groups=groups,
                       bias=rng.standard_normal(12).astype(np.float32) if bias else None)
    y = builder.single("batch_norm", x=y, mean=rng.standard_normal(12), variance=rng.uniform(1, 2, 12),
                       gamma=rng.standard_normal(12), beta=rng.standard_normal(12))
    y = builder.single("real_div", x=y, y=rng.uniform(1, 2, (12, 1, 1)).astype(np.float32))
    y = builder.single("sub", x=rng.standard_normal((1, 12, 1, 1)).astype(np.float32), y=y)
    graph = builder.finish({"y": y})
    folded = simplify(graph)
    assert [node.op for node in folded.nodes] == [op]
    inputs = {"x": rng.standard_normal((2, 6, 7, 8)).astype(np.float32)}
    np.testing.assert_allclose(evaluate(folded, inputs)["y"], evaluate(graph, inputs)["y"], rtol=1e-4, atol=1e-4)


def test_divisions_by_zero_are_left_alone():
    builder = GraphBuilder()
    y = builder.single("conv", x=builder.input("x", "fp32", (1, 2, 4)), weight=np.ones((2, 2, 1), np.float32))
    y = builder.single("real_div", x=y, y=np.float32([[0], [1]]))
    assert len(simplify(builder.finish({"y": y})).nodes) > 1


@pytest.mark.parametrize(("weight", "bias", "op", "number", "low", "high"), [
    (1e3, 0.0, "mul", 1e3, 1e-5, 2e-5),              # the weight would be inf
    (1e-4, 0.0, "mul", 1e-4, 1e4, 2e4),              # and lose its digits below 2^-14
    (1.0, 500.0, "mul", 1e3, -250.5, -249.5),        # the bias would be inf
    (1.0, 4e4, "add", 4e4, -15000.0, -14500.0),      # so would this one
])
def test_what_fp16_does_not_hold_is_not_folded(hold, weight, bias, op, number, low, high):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, 4, 4))
    y = builder.single("conv", x=x, weight=np.full((2, 2, 1, 1), weight, np.float16),
                       bias=np.full(2, bias, np.float16))
    hold(builder.finish({"y": builder.single(op, x=y, y=np.float16(number))}), low=low, high=high, relative=1e-2)


def test_a_channel_scaled_to_next_to_nothing_is_folded_with_the_others():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, 4, 4))
    y = builder.single("conv", x=x, weight=np.ones((2, 2, 1, 1), np.float16))
    y = builder.single("mul", x=y, y=np.array([1, 1e-7], np.float16).reshape(2, 1, 1))
    assert [node.op for node in simplify(builder.finish({"y": y})).nodes] == ["conv"]


def test_a_weight_that_is_folded_again_is_made_once():
    builder = GraphBuilder()
    y = builder.single("conv", x=builder.input("x", "fp16", (1, 2, 4, 4)), weight=np.ones((2, 2, 1, 1), np.float16))
    graph = builder.finish({"y": builder.single("mul", x=y, y=np.array([2, 3], np.float16).reshape(2, 1, 1))})
    with folded_once():
        first, second = (simplify(graph).nodes[0]["weight"].array() for _ in range(2))
    assert first is second
    assert simplify(graph).nodes[0]["weight"].array() is not first


def test_one_weight_is_folded_into_each_operation_in_its_way():
    weight, gain = np.ones((2, 2, 1, 1), np.float16), np.array([2, 3], np.float16).reshape(2, 1, 1)
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, 4, 4))
    results = {op: builder.single("mul", x=builder.single(op, x=x, weight=weight), y=gain)
               for op in ("conv", "conv_transpose")}
    with folded_once():
        along, across = (node["weight"].array() for node in simplify(builder.finish(results)).nodes)
    assert np.array_equal(along, across.swapaxes(0, 1))
    assert not np.array_equal(along, across)


def test_what_is_folded_before_ranges_are_measured_is_not_folded_again():
    weight = np.random.default_rng(1).standard_normal((4, 4, 1, 1)).astype(np.float32)
    builder = GraphBuilder()
    y = builder.single("conv", x=builder.input("x", "fp16", (1, 4, 4, 4)),
                       weight=RoundedArray(weight.astype(np.float16), weight))
    y = builder.single("batch_norm", x=y, mean=np.ones(4), variance=np.full(4, 2.0), gamma=np.ones(4), beta=np.ones(4))
    graph = builder.finish({"y": builder.single("relu", x=y)})
    with folded_once():
        first, second, third = (fold_affine(graph, digits).nodes[0] for digits in (True, False, False))
    alone = fold_affine(graph).nodes[0]
    assert first["bias"].array() is second["bias"].array()
    for made in (third, alone):  # what was asked for twice is not kept
        assert made["bias"].array() is not first["bias"].array()
        for name in ("weight", "bias"):
            assert made[name].array().tobytes() == second[name].array().tobytes()


@pytest.mark.parametrize("steps", [["add"], ["mul"], ["mul", "add"], ["add", "mul"], ["add", "mul", "add"]])
def test_a_bias_that_was_folded_with_digits_is_what_it_is_without(steps):
    builder = GraphBuilder()
    y = builder.single("conv", x=builder.input("x", "fp16", (1, 2, 4, 4)), weight=np.ones((2, 2, 1, 1), np.float16))
    for step in steps:
        digits = np.array([1 / 3, 3.3333], np.float32).reshape(2, 1, 1)
        y = builder.single(step, x=y, y=RoundedArray(digits.astype(np.float16), digits))
    graph = builder.finish([y])
    with folded_once():
        _, after = (fold_affine(graph, digits).nodes for digits in (True, False))
    (made,), (alone,) = after, fold_affine(graph).nodes
    for name in ("weight", "bias"):
        one, other = made.get(name), alone.get(name)
        assert type(one) is type(other)
        assert one is None or one.array().tobytes() == other.array().tobytes()
