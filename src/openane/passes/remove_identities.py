"""Identities, and reshapes, transposes and casts that change nothing, are read through."""

from __future__ import annotations

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.passes.rewrite import rebuilt, substituted


def remove_identities(graph: Graph) -> Graph:
    """The graph without nodes whose result is their operand x, unless the result is an output of the graph."""
    outputs = {id(value) for value in graph.outputs}
    same: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substituted(node, same)
        if _changes_nothing(node) and id(node.output) not in outputs:
            same[id(node.output)] = node["x"]
        else:
            nodes.append(node)
    return rebuilt(graph, nodes)


def _changes_nothing(node: Node) -> bool:
    if node.op == "transpose":
        perm = node.get("perm")
        return perm is not None and perm.constant and [int(i) for i in perm.array()] == list(range(node["x"].type.rank))
    return get_op(node.op).view and node["x"].type == node.output.type
