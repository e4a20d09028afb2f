"""Gains and offsets of a layer norm whose result nothing but products with constant weights reads become part of those
weights (`ops.norm_gains`)."""

from __future__ import annotations

from openane.graph import Graph, Node
from openane.ops.norm_gains import has_gains, taken_up, without_gains
from openane.ops.optimisation import level_of
from openane.passes.rewrite import rebuilt


def norms_into_products(graph: Graph) -> Graph:
    """The graph, from level 1 on with such gains and offsets in the weights behind them."""
    if not level_of(graph):
        return graph
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    changed: dict[int, Node] = {}
    for node in graph.nodes:
        readers = users.get(id(node.output), []) if has_gains(node) else []
        made = taken_up(node, readers) if readers and id(node.output) not in outputs else None
        if made is not None:
            changed |= made | {id(node): without_gains(node)}
    return rebuilt(graph, [changed.get(id(node), node) for node in graph.nodes])
