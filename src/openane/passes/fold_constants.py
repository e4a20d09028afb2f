"""Nodes whose operands are all constants are computed now, by the operations' references."""

from __future__ import annotations

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value, as_stated, numpy_type
from openane.graph.budget import Budget
from openane.ops import get_op
from openane.ops.evaluate import evaluate_node
from openane.ops.work import node_work
from openane.passes.folded_once import made_once
from openane.passes.rewrite import rebuilt, substituted

LARGEST = 1 << 28
"""Elements a folded result may have: larger ones are left to be computed."""


@made_once
def fold_constants(graph: Graph) -> Graph:
    """The graph with constant results in place of the nodes that made them. Outputs stay results of nodes.
    UnsupportedError when they are more than the graph may make of itself (graph.budget)."""
    budget: Budget | None = None
    outputs = {id(value) for value in graph.outputs}
    known: dict[int, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = substituted(node, known)
        if not _foldable(node) or any(id(value) in outputs for value in node.outputs):
            nodes.append(node)
            continue
        budget = budget or Budget.of(graph)
        budget.take(node.label, sum(map(_size, node.outputs)), node_work(node))
        stated = as_stated(node)
        for value, array in zip(node.outputs, evaluate_node(stated, {}), strict=True):
            with np.errstate(over="ignore"):
                data = np.asarray(array).astype(numpy_type(value.dtype))
            digits = stated is not node and value.dtype == "fp16" and np.asarray(array).dtype == np.float32
            known[id(value)] = RoundedConstant(value.name, value.type, data, stated=np.asarray(array)) if digits \
                else Value(value.name, value.type, data)
    return rebuilt(graph, nodes)


def _size(value: Value) -> int:
    return value.type.elements * numpy_type(value.dtype).itemsize


def _foldable(node: Node) -> bool:
    get_op(node.op)
    return not node.computed() and all(v.type.elements <= LARGEST for v in node.outputs)
