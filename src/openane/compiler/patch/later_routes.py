"""Where the constants of a model's graph lie in its programs, found when somebody asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from openane.chips import Chip
from openane.compiler.partition.program import CompiledPiece
from openane.compiler.patch.patchable import Patchable
from openane.compiler.patch.traced_nodes import TracedNodes, traced_nodes
from openane.compiler.weights.layout_records import Routes
from openane.graph import Graph, Value, substituted


def patchable(graph: Graph, compiled: Sequence[CompiledPiece], chip: Chip,
              plain: Mapping[int, Value] | None = None) -> Patchable:
    """The routes of a graph's constants after its compilation to programs. The model keeps its constants as they are
    here; `plain` has them by the id of what they were when it was compiled."""
    return Patchable(partial(_routes, graph, traced_nodes(compiled, graph, plain or {}), chip), chip.limits)


def _routes(graph: Graph, compiled: Sequence[TracedNodes], chip: Chip) -> Routes:
    from openane.compiler.patch.find_routes import found_routes  # most never ask

    return found_routes(graph, compiled, chip)


def with_values(graph: Graph, values: Mapping[int, Value]) -> Graph:
    """The graph with values replaced, by id of the old value."""
    return replace(graph, nodes=tuple([substituted(node, values) for node in graph.nodes])) if values else graph
