"""Gradients of random graphs: a typed refusal, or a graph that verifies, compiles where the first one does, and gives
the numbers that central differences give in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.gradients import wide
from support.random_graphs import draw_graph
from support.random_operands import TABLE

import openane as ane
from openane.errors import GraphError, UnsupportedError
from openane.graph import Node, numpy_type
from openane.ops.gradients import Backward
from openane.training.gradient import gradient

REAL = ("fp16", "fp32")
STEP = 1e-5
DIRECTIONS = 6


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
    operations, tried, held = sorted(TABLE), 0, 0
    for seed in range(part, 2 * len(operations), 4):
        try:
            made = with_loss(draw_graph(seed, TABLE, 3, operations[seed % len(operations)]))
        except GraphError:  # what was drawn does not fit
            continue
        if made is None:
            continue
        graph, loss = made
        numbers = drawn(graph, seed)
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
            held += held_to_differences(graph, joint, loss, value.name, numbers)
            if seed % 12 == part:
                compiled_alike(graph, joint)
    assert tried > 20
    assert held > 0.8 * DIRECTIONS * tried


def drawn(graph, seed):
    """Numbers for the inputs, none of them near 0: of both signs, most of them above it."""
    rng, numbers = np.random.default_rng(seed), {}
    for value in graph.inputs:
        if value.dtype in REAL:
            numbers[value.name] = rng.uniform(0.2, 1.3, value.shape) * rng.choice([1, 1, 1, -1], value.shape)
        else:
            numbers[value.name] = rng.integers(0, 2 if value.dtype == "bool" else 3, value.shape).astype(
                numpy_type(value.dtype))
    return numbers


def held_to_differences(graph, joint, loss, name, numbers):
    """How many directions were compared: all but those in which differences of two widths say that the loss has a
    corner or jump nearby, or is no number."""
    found, rng, count = wide(joint, numbers)[f"gradient_{name}"], np.random.default_rng(len(graph.nodes)), 0
    for _ in range(DIRECTIONS):
        way = rng.normal(size=found.shape)
        narrow, broad = (differences(graph, loss, name, numbers, way * width) / width for width in (STEP, 2 * STEP))
        if not abs(narrow - broad) <= 1e-4 * max(1, abs(narrow)):
            continue
        count += 1
        ours, bound = float((found * way).sum()), 1e-3 * max(1, abs(narrow), np.linalg.norm(found))
        assert abs(ours - narrow) <= bound, f"{[node.op for node in graph.nodes]} by {name}: {ours} is not {narrow}"
    return count


def differences(graph, loss, name, numbers, step):
    """Half of what the loss changes from one side to the other."""
    sides = [float(wide(graph, {**numbers, name: numbers[name] + sign * step})[loss].reshape(())) for sign in (1, -1)]
    return (sides[0] - sides[1]) / 2


def compiled_alike(graph, joint):
    try:
        ane.compile(graph, allow_host=False)
    except UnsupportedError:
        return
    ane.compile(joint, allow_host=False)
