"""Data movement behind data movement (Op.merge): two transposes or two reshapes are one, a slice of a concat that takes
from one of its parts is a slice of that part."""

from __future__ import annotations

from collections.abc import Mapping

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.passes.rewrite import rebuilt


def merge_movement(graph: Graph) -> Graph:
    """The graph with each movement reading what the one before it read, where one does for both. The first stays for
    whoever else reads it."""
    made: dict[int, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = _merged(node, made)
        nodes.append(node)
        made.update((id(value), node) for value in node.outputs)
    return rebuilt(graph, nodes)


def _merged(node: Node, made: Mapping[int, Node]) -> Node:
    merge = get_op(node.op).merge
    x = None if merge is None else node.get("x")
    before = None if x is None else made.get(id(x))
    found = None if merge is None or before is None else merge(node, before)
    return node if found is None else found
