"""Layer normalisation by the mean of squares less the square of the mean becomes one operation; nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.order import simplify

SHAPE = (2, 6, 8)


def written(*, count: int = 6, bounded: bool = True, averaged: bool = False, squares: int = 1) -> Graph:
    """The norm over dimension 1 as Flax writes it: sums by a count, statistics without the dimension."""
    builder = GraphBuilder("norm", {})
    x = builder.input("x", "fp16", SHAPE)

    def add(op: str, **operands: object):
        return builder.single(op, f"{op}{len(names)}", **operands)

    def mean(value):
        names.append("mean")
        if averaged:
            return add("reduce_mean", x=value, axes=[1], keep_dims=False)
        names.append("sum")
        return add("mul", x=add("reduce_sum", x=value, axes=[1], keep_dims=False), y=1 / count)

    names: list[str] = []
    squared = mean(add("mul", x=x, y=x))
    average = mean(x)
    names.append("")
    variance = add("sub", x=squared, y=add("mul", x=average, y=average) if squares else average)
    names.append("")
    variance = add("maximum", x=0.0, y=variance) if bounded else variance
    names.append("")
    wide = add("reshape", x=variance, shape=[2, 1, 8])
    root = add("inverse", x=add("sqrt", x=add("add", x=wide, y=1e-3)), epsilon=0.0)
    names.append("")
    centred = add("sub", x=x, y=add("reshape", x=average, shape=[2, 1, 8]))
    gain = np.linspace(0.5, 2, 6, dtype=np.float16).reshape(1, 6, 1)
    names.append("")
    return builder.finish([add("mul", x=centred, y=add("mul", x=root, y=gain))])


@pytest.mark.parametrize("options", [{}, {"bounded": False}, {"averaged": True}])
def test_the_norm_is_found_and_survives_large_numbers(options) -> None:
    graph = written(**options)
    found = simplify(graph)
    assert [node.op for node in found.nodes].count("layer_norm") == 1
    assert "sqrt" not in [node.op for node in found.nodes]
    x = np.random.default_rng(1).uniform(-2, 2, SHAPE).astype(np.float32)
    name = graph.outputs[0].name
    np.testing.assert_allclose(evaluate(found, {"x": x})[name], evaluate(graph, {"x": x})[name], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("options", [{"count": 7}, {"squares": 0}])
def test_what_only_looks_like_it_is_left(options) -> None:
    assert "layer_norm" not in [node.op for node in simplify(written(**options)).nodes]
