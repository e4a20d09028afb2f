"""Norms of groups of a volume's channels that are written with rows keep the volume's rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Graph
from openane.ops import arguments
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.order import simplify

SHAPE = (2, 6, 3, 4, 5)


def written(norm: str, groups: int = 3, back: tuple[int, ...] = SHAPE, **operands: object) -> Graph:
    """Rows of one group each, normalised, and given a shape again."""
    builder = GraphBuilder("norm", {})
    x = builder.input("x", "fp16", SHAPE)
    rows = builder.single("reshape", "rows", x=x, shape=[2, groups, -1])
    normal = builder.single(norm, "normal", x=rows, epsilon=1e-3, **operands)
    return builder.finish((builder.single("reshape", "result", x=normal, shape=back),))


def norms(graph: Graph) -> list[tuple[int, ...]]:
    """Over which axes the graph normalises."""
    return [tuple(arguments(node).axes("axes", node.output.type.rank) or ())
            for node in graph.nodes if node.op == "layer_norm"]


def same(graph: Graph, changed: Graph) -> bool:
    x = {"x": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}
    wanted, found = (evaluate(each, x)["result"] for each in (graph, changed))
    return bool(np.allclose(wanted, found, atol=2e-3))


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("norm", ["instance_norm", "layer_norm"])
def test_rows_and_columns_stay(norm: str, groups: int) -> None:
    more = {"gamma": np.ones(groups), "beta": np.zeros(groups)} if norm == "instance_norm" else {"axes": [-1]}
    graph = written(norm, groups, **more)
    changed = simplify(graph)
    assert norms(changed) == [(2, 3, 4)]
    assert same(graph, changed)


@pytest.mark.parametrize("graph", [
    written("instance_norm", gamma=np.array([1, 2, 1])), written("instance_norm", beta=np.array([0, 0, 1])),
    written("layer_norm", axes=[1, 2]), written("layer_norm", axes=[2], gamma=np.arange(120)),
    written("layer_norm", axes=[2], back=(2, 6, 3, 20)), written("layer_norm", axes=[2], back=(2, 3, 6, 4, 5))],
    ids=("gains of groups", "offsets of groups", "all of an image", "gains of elements", "an image", "another volume"))
def test_others_stay_what_they_are(graph: Graph) -> None:
    changed = simplify(graph)
    assert (2, 3, 4) not in norms(changed)
    assert same(graph, changed)
