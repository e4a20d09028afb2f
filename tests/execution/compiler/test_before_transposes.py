"""A function behind a transposition goes before it, where rows are no shorter there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from openane.compiler import compile
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.sink_reshapes import sink_reshapes
from openane.timing import program_time, rates

LAST = [0, 2, 3, 1]


def _scores(shape: tuple[int, ...], small: bool) -> Graph:
    """Scores of a convolution, channels last, that leave the model."""
    rng, made = np.random.default_rng(4), GraphBuilder()
    weight = rng.standard_normal((1, shape[1], 1, 1)).astype(np.float16)
    x = made.single("conv", "sums", x=made.input("x", "fp16", shape), weight=weight)
    x = made.single("transpose", "turned", x=x, perm=LAST)
    marked = {"small_results": True} if small else {}
    scores = made.single("sigmoid", "scores", x=x, **marked)
    return made.finish([made.single("reshape", "out", x=scores, shape=(1, -1))])


@pytest.mark.parametrize("small", [True, False])
def test_scores_that_leave_channels_last_are_computed_before(small: bool, compare: Callable[..., object]) -> None:
    graph = _scores((1, 3, 6, 40), small)
    before = sink_reshapes(graph)
    before.verify()
    assert [node.op for node in before.nodes] == ["conv", "sigmoid", "transpose", "reshape"]
    data = {"x": np.random.default_rng(5).standard_normal((1, 3, 6, 40)).astype(np.float16)}
    np.testing.assert_array_equal(evaluate(before, data)["out"], evaluate(graph, data)["out"])
    compare(graph, absolute=0.01)


def test_what_has_shorter_rows_before_stays_behind() -> None:
    made = GraphBuilder()
    x = made.single("transpose", "turned", x=made.input("x", "fp16", (1, 40, 6, 1)), perm=[0, 3, 1, 2])
    graph = made.finish([made.single("sigmoid", "y", x=made.single("transpose", x=x, perm=[0, 1, 3, 2]))])
    assert [node.op for node in sink_reshapes(graph).nodes] == ["transpose", "transpose", "sigmoid"]


def test_small_results_channels_last_take_no_longer_than_others() -> None:
    small, plain = (program_time(compile(_scores((1, 3, 120, 200), each), precision="as-is").program,
                                 rates("m1")).seconds for each in (True, False))
    assert small < 1.2 * plain
