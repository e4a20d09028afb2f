"""Nodes whose results nobody reads are removed."""

from __future__ import annotations

from openane.graph import Graph, Node
from openane.passes.rewrite import rebuilt


def remove_dead_code(graph: Graph) -> Graph:
    """The graph with only the nodes its outputs depend on."""
    needed = {id(value) for value in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if not needed.isdisjoint(map(id, node.outputs)):
            needed.update(map(id, node.values()))
            kept.append(node)
    return rebuilt(graph, reversed(kept))
