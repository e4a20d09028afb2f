"""Passes keep what a graph computes, and do what they are for."""

import numpy as np
import pytest

from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.order import PASSES, simplify


def sample():
    """A graph with something for every pass."""
    rng = np.random.default_rng(0)
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (2, 3, 8, 8))
    ones = np.ones(3, np.float32)
    scale = builder.single("add", x=builder.constant(ones), y=builder.constant(ones))
    y = builder.single("mul", x=x, y=builder.single("reshape", x=scale, shape=[1, 3, 1, 1]))
    y = builder.single("conv", x=y, weight=rng.standard_normal((6, 3, 3, 3)).astype(np.float32))
    y = builder.single("identity", x=y)
    y = builder.single("batch_norm", x=y, mean=rng.standard_normal(6), variance=rng.uniform(1, 2, 6),
                       gamma=rng.standard_normal(6), beta=rng.standard_normal(6))
    y = builder.single("sub", x=builder.constant(np.full((6, 1, 1), 0.5, np.float32)), y=y)
    y = builder.single("reshape", x=y, shape=[2, 6, 36])
    y = builder.single("relu", x=y)
    y = builder.single("mul", x=y, y=builder.constant(np.float32(0.5)))
    builder.single("exp", x=y)
    y = builder.single("transpose", x=y, perm=[0, 1, 2])
    y = builder.single("matmul", x=y, y=rng.standard_normal((36, 5)).astype(np.float32))
    y = builder.single("add", x=y, y=rng.standard_normal(5).astype(np.float32))
    return builder.finish({"y": builder.single("softmax", x=y)})


@pytest.mark.parametrize("position", range(len(PASSES)))
def test_each_pass_keeps_the_result(position):
    graph = sample()
    inputs = {"x": np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)}
    expected = evaluate(graph, inputs)["y"]
    for rewrite in PASSES[:position + 1]:
        graph = rewrite(graph)
    graph.verify()
    np.testing.assert_allclose(evaluate(graph, inputs)["y"], expected, atol=1e-5)


def test_together_they_leave_what_must_run():
    assert [node.op for node in simplify(sample()).nodes] == ["mul", "conv", "relu", "mul", "reshape", "linear",
                                                              "softmax"]


def test_outputs_and_shared_values_are_left_alone():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, 4, 4))
    y = builder.single("conv", x=x, weight=np.ones((2, 2, 1, 1), np.float16))
    z = builder.single("add", x=y, y=np.float16(1))
    seen = builder.single("reshape", x=y, shape=[32])
    w = builder.single("relu", x=seen)
    graph = simplify(builder.finish({"y": y, "z": z, "seen": seen, "w": w}))
    inputs = {"x": np.arange(32, dtype=np.float16).reshape(1, 2, 4, 4)}
    assert {value.name for value in graph.outputs} == {"y", "z", "seen", "w"}
    assert (evaluate(graph, inputs)["z"] == evaluate(graph, inputs)["y"] + 1).all()
