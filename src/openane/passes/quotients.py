"""Quotients by one number become products: products by constant weights, or of two tensors, take a factor up, and no
quotient (`ops.quotients`)."""

from __future__ import annotations

from openane.graph import Graph
from openane.ops.optimisation import level_of
from openane.ops.quotients import scalar_product
from openane.passes.rewrite import rebuilt


def quotients(graph: Graph) -> Graph:
    """The graph, from level 1 on with products in place of quotients by one number."""
    if not level_of(graph):
        return graph
    return rebuilt(graph, [scalar_product(node) or node for node in graph.nodes])
