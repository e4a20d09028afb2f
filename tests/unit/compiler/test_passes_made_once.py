"""Passes that run twice in one compilation give again what they made of the same nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Graph
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.passes.folded_once import folded_once
from openane.passes.recognise import recognise


def _silu() -> Graph:
    """x / (1 + exp(-x)), written out."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8))
    below = builder.single("exp", x=builder.single("mul", x=x, y=np.float16(-1)))
    return builder.finish([builder.single("real_div", x=x, y=builder.single("add", x=below, y=np.float16(1)))])


def test_the_same_nodes_become_the_same_nodes_while_it_lasts() -> None:
    graph = replace(_silu(), metadata={FUNCTIONS: CLOSE})
    renamed = replace(graph, metadata={**graph.metadata, "range:x": "1 drawn inputs"})
    with folded_once():
        first, second = recognise(graph), recognise(renamed)
    assert first.nodes == second.nodes
    assert "silu" in {node.op for node in first.nodes}
    assert second.metadata == renamed.metadata
    assert recognise(graph).nodes != first.nodes


def test_what_a_pass_reads_beside_nodes_tells_them_apart() -> None:
    graph = _silu()
    with folded_once():
        plain, close = recognise(graph), recognise(replace(graph, metadata={FUNCTIONS: CLOSE}))
    assert plain.nodes == graph.nodes
    assert "silu" in {node.op for node in close.nodes}
