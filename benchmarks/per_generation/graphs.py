"""The small graphs over every operation that benchmarks/guard.py compiles, on drawn inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from guarded.graphs import HOSTED, graphs
from guarded.groups import plain_name
from support.random_graphs import draw_inputs

from openane.graph import Graph
from per_generation.case import Arrays, Case, graph_case


def cases() -> dict[str, Callable[[], Case]]:
    """What makes each case, by name."""
    return {plain_name(name): partial(graph_case, make, _inputs, None)
            for name, make in sorted(graphs().items()) if name not in HOSTED}


def _inputs(graph: Graph) -> Arrays:
    """Drawn numbers for everything but states, which begin as zeros."""
    states = {name.removeprefix("state:") for name in graph.metadata if name.startswith("state:")}
    return {name: array for name, array in draw_inputs(graph, 1).items() if name not in states}
