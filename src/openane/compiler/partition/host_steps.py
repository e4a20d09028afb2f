"""Cuts a graph into steps where the host computes some operations between engine programs.

That is done only for models compiled with `allow_host`. A step is a piece of the graph for the engine, or one operation
for the host. So that there are few steps, everything the engine can do next is done before the host takes its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from openane.graph import Graph, Node
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Nodes that run together: one of the host's, or a piece for the engine."""

    nodes: tuple[Node, ...]
    host: bool


def partition(nodes: Iterable[Node], hosted: Mapping[int, str]) -> list[GraphPart]:
    """The nodes in parts that can run one after another; `hosted` has the host's nodes by id(node)."""
    waiting = list(nodes)
    unmade = {id(value) for node in waiting for value in node.outputs}
    parts: list[GraphPart] = []
    while waiting:
        for host in (False, True):
            taken: list[Node] = []
            left: list[Node] = []
            for node in waiting:
                ready = (id(node) in hosted) is host and unmade.isdisjoint(map(id, node.values()))
                (taken if ready else left).append(node)
                if ready:
                    unmade.difference_update(map(id, node.outputs))
            waiting = left
            parts += [GraphPart((node,), True) for node in taken] if host else [GraphPart(tuple(taken),
                                                                                          False)] if taken else []
    return parts


def piece(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Some of the graph's nodes as a graph: inputs are what they read and do not make, outputs what others need."""
    made = {id(value) for node in nodes for value in node.outputs}
    chosen = set(map(id, nodes))
    needed = set(map(id, graph.outputs))
    needed |= {id(value) for node in graph.nodes if id(node) not in chosen for value in node.values()}
    inputs = {id(value): value for node in nodes for value in node.values()
              if not value.constant and id(value) not in made}
    outputs = tuple(value for node in nodes for value in node.outputs if id(value) in needed)
    return Graph(tuple(inputs.values()), tuple(nodes), outputs, graph.name, graph.metadata)
