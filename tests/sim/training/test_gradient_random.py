"""Gradients of random graphs: a typed refusal, or a graph that verifies and compiles where the first one does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.random_graphs import draw_graph
from support.random_operands import TABLE

import openane as ane
from openane.errors import GraphError, UnsupportedError
from openane.graph import Node
from openane.ops.gradients import Backward
from openane.training.gradient import gradient

REAL = ("fp16", "fp32")


def with_loss(graph):
    """The graph with the sum of its first real output as a further output; None without one."""
    source = next((value for value in graph.outputs if value.dtype in REAL and not value.constant), None)
    if source is None:
        return None
    names = {value.name for node in graph.nodes for value in (*node.outputs, *node.values())}
    backward = Backward(Node("loss", {}, (), "loss"), names | {value.name for value in graph.inputs}, set())
    made = backward.single("reduce_sum", x=source) if source.type.rank else backward.single("identity", x=source)
    return replace(graph, nodes=(*graph.nodes, *backward.made), outputs=(*graph.outputs, made)), made.name


@pytest.mark.parametrize("part", range(4))
def test_random_graphs(part):
    operations, tried = sorted(TABLE), 0
    for seed in range(part, 2 * len(operations), 4):
        try:
            made = with_loss(draw_graph(seed, TABLE, 3, operations[seed % len(operations)]))
        except GraphError:  # what was drawn does not fit
            continue
        if made is None:
            continue
        graph, loss = made
        for value in graph.inputs:
            if value.dtype not in REAL:
                continue
            try:
                joint = gradient(graph, loss, [value.name])
            except (GraphError, UnsupportedError):
                continue
            joint.verify()
            assert joint.outputs[-1].type == value.type
            tried += 1
            if seed % 12 == part:
                compiled_alike(graph, joint)
    assert tried > 20


def compiled_alike(graph, joint):
    try:
        ane.compile(graph)
    except UnsupportedError:
        return
    assert not ane.compile(joint).host_operations
