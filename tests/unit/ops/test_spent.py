"""Memory that is written over while a graph is evaluated: results are those of an evaluation that keeps everything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from openane.graph import Graph, Node
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.spent import LARGE

SIDE = 2 * int(LARGE ** 0.5)


def _attention(layers: int, viewed: bool, again: bool) -> Graph:
    """Scores of rows over and over; with `viewed` a reshape of the scores is read later, with `again` they are."""
    builder = GraphBuilder()
    x = value = builder.input("x", "fp16", (1, SIDE, 8))
    for _ in range(layers):
        scores = builder.single("matmul", x=value, y=value, transpose_y=True)
        seen = builder.single("reshape", x=scores, shape=(SIDE, SIDE)) if viewed else scores
        scaled = builder.single("real_div", x=scores, y=3.0)
        shares = builder.single("softmax", x=builder.single("add", x=scaled, y=scaled), axis=-1)
        if viewed or again:
            shares = builder.single("mul", x=shares, y=builder.single("reshape", x=seen, shape=(1, SIDE, SIDE)))
        value = builder.single("matmul", x=shares, y=value)
    return builder.finish({"y": value, "z": builder.single("add", x=x, y=value)})


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_results_are_the_same(viewed: bool, again: bool) -> None:
    graph = _attention(3, viewed, again)
    given = np.random.default_rng(0).standard_normal((1, SIDE, 8)).astype(np.float32) / 4
    before, sums, addresses = given.copy(), list[list[float]](), list[set[int]]()
    for spend in (False, True):
        made: list[float] = []
        places: set[int] = set()

        def seen(node: Node, arrays: Mapping[int, np.ndarray], made: list[float] = made,
                 places: set[int] = places) -> None:
            array = arrays[id(node.outputs[0])]
            made.append(float(np.abs(array).sum(dtype=np.float64)))
            if array.size >= LARGE:
                places.add(array.__array_interface__["data"][0])

        outputs = evaluate(graph, {"x": given}, seen, spend)
        made += [float(array.sum()) for array in outputs.values()]
        sums.append(made)
        addresses.append(places)
    assert sums[0] == sums[1]
    assert np.array_equal(given, before)
    if not viewed and not again:
        assert len(addresses[1]) == 1  # one array for all scores


def test_an_input_and_a_constant_are_never_written_over() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (SIDE, SIDE))
    same = builder.single("identity", x=x)
    constant = builder.single("identity", x=builder.constant(np.ones((SIDE, SIDE), np.float16), "c"))
    sums = [builder.single("add", x=each, y=1.0) for each in (same, constant)]
    graph = builder.finish({"y": sums[0], "z": sums[1]})
    given = np.zeros((SIDE, SIDE), np.float32)
    outputs = evaluate(graph, {"x": given}, None, True)
    assert not given.any()
    assert (outputs["y"] == 1).all()
    assert (outputs["z"] == 2).all()
    assert (evaluate(graph, {"x": given}, None, True)["z"] == 2).all()
