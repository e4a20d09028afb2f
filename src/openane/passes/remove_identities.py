"""Identities, and reshapes, transposes and casts that change nothing, are read through."""

from __future__ import annotations

from dataclasses import replace

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.spec import Movement
from openane.ops.transpose import in_order
from openane.passes.folded_once import made_once
from openane.passes.rewrite import rebuilt, substituted


@made_once
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
    return _made_in_place(rebuilt(graph, nodes))


def _made_in_place(graph: Graph) -> Graph:
    """An output that is the same as a computed value takes its place: its producer writes the output."""
    outputs = {id(value) for value in graph.outputs}
    producers = graph.producers()
    taken: dict[int, Value] = {}
    for node in graph.nodes:
        if outputs.isdisjoint(map(id, node.outputs)):
            continue  # it is gone already where it changes nothing
        if _changes_nothing(node) and id(node["x"]) in producers and not {id(node["x"])} & (outputs | taken.keys()):
            taken[id(node["x"])] = node.output
    if not taken:
        return graph
    nodes = [node for node in graph.nodes if taken.get(id(node.get("x"))) not in node.outputs]
    renamed = [substituted(replace(node, outputs=tuple(taken.get(id(v), v) for v in node.outputs)), taken)
               for node in nodes]
    return rebuilt(graph, renamed)


def _changes_nothing(node: Node) -> bool:
    op = get_op(node.op)
    return in_order(node) if op.moves is Movement.DIMENSIONS else op.views(node) and node["x"].type == node.output.type
