"""What passes share: rebuilding nodes and graphs with other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import is_

from openane.graph import Graph, Node, Value, substituted

__all__ = ["only_user", "rebuilt", "substituted", "taken_names"]


def rebuilt(graph: Graph, nodes: Iterable[Node], outputs: Iterable[Value] | None = None) -> Graph:
    """The graph with other nodes (and outputs); itself when nothing changes."""
    made, results = tuple(nodes), graph.outputs if outputs is None else tuple(outputs)
    if _same(made, graph.nodes) and _same(results, graph.outputs):
        return graph
    return replace(graph, nodes=made, outputs=results)


def _same(first: Sequence[object], second: Sequence[object]) -> bool:
    return first is second or (len(first) == len(second) and all(map(is_, first, second)))


def only_user(graph_users: Mapping[int, list[Node]], outputs: set[int], value: Value) -> Node | None:
    """The one node that reads `value`, None when there are others or it is an output of the graph."""
    users = graph_users.get(id(value), [])
    return users[0] if len(users) == 1 and id(value) not in outputs else None


def taken_names(graph: Graph) -> set[str]:
    """Names of the values a graph computes or is given: new ones must differ."""
    return {value.name for value in graph.inputs} | {value.name for node in graph.nodes for value in node.outputs}
