"""What depends on nothing but shapes, which are all known, becomes constant."""

from __future__ import annotations

from openane.graph import Graph, Node, Value, numpy_type
from openane.graph.budget import Budget
from openane.ops import get_op
from openane.ops.fill import without_data
from openane.passes.folded_once import made_once
from openane.passes.rewrite import rebuilt, substituted


@made_once
def fold_shapes(graph: Graph) -> Graph:
    """The graph with constants in place of nodes that only read shapes. Outputs stay results of nodes.
    UnsupportedError when they are more than the graph may make of itself (graph.budget)."""
    budget: Budget | None = None
    outputs = {id(value) for value in graph.outputs}
    known: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if get_op(node.op).shape_only and id(node.output) not in outputs:
            budget = budget or Budget.of(graph)
            budget.take(node.label, node.output.type.elements * numpy_type(node.output.dtype).itemsize)
            known[id(node.output)] = Value(node.output.name, node.output.type, without_data(node)[0])
        else:
            nodes.append(substituted(node, known))
    return rebuilt(graph, nodes)
