"""Tensors far wider than the engine goes in one task: whatever is compiled verifies."""

from __future__ import annotations

import os

import numpy as np
import pytest
from support.random_graphs import draw_graph
from support.random_operands import TABLE

from openane.chips import compiled_generations
from openane.compiler import compile
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.program.verify import violations

EXAMPLES = int(os.environ.get("OPENANE_LONG_EXAMPLES", "12"))
"""Random graphs; a thorough search sets more."""
SLOW = ("gather", "gather_along_axis", "gather_nd", "scatter", "scatter_along_axis", "scatter_nd", "topk", "argsort",
        "resample", "cumsum", "reverse_sequence")
"""Operations that become a task for every position, which takes long where there are thousands."""


def refused_or_verified(graph: Graph, target: str) -> None:
    try:
        model = compile(graph, target)
    except UnsupportedError:
        return
    found = [str(violation) for program in model.programs for violation in violations(program)]
    assert not found, f"{[node.op for node in graph.nodes]} of {[x.shape for x in graph.inputs]}: {found[0]}"


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_whatever_is_compiled_verifies(seed: int) -> None:
    table = {name: draw for name, draw in TABLE.items() if name not in SLOW}
    target = compiled_generations()[seed % len(compiled_generations())]
    for attempt in range(100):
        try:
            graph = draw_graph(1000 * seed + attempt, table, 1 + seed % 2, long=True)
            break
        except GraphError:
            continue
    refused_or_verified(graph, target)


@pytest.mark.parametrize("target", compiled_generations()[:2])
def test_sums_of_parts_of_a_kernel_are_cut_into_what_a_task_takes(target: str) -> None:
    """A kernel wider than the engine's becomes parts, which are summed: 19,901 numbers wide."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 1, 1, 40000))
    weight = (np.random.default_rng(0).standard_normal((1, 1, 1, 200)) / 10).astype(np.float16)
    refused_or_verified(build.finish([build.single("conv", x=x, weight=weight, strides=[1, 2])]), target)


def test_a_task_takes_no_more_rows_than_it_is_handed() -> None:
    """The ring between two tasks holds three rows where the first has little room; the second took six."""
    build = GraphBuilder()
    x = build.input("x", "int32", (40000, 4, 3, 4))
    refused_or_verified(build.finish([build.single("atan", x=build.single("cast", x=x, dtype="fp16"))]), "h13")
