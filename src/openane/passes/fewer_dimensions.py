"""Tensors of more dimensions than the engine has: operations on them are written with fewer (Op.fewer)."""

from __future__ import annotations

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.fewer import MOST
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Movement
from openane.passes.rewrite import rebuilt, taken_names


def fewer_dimensions(graph: Graph) -> Graph:
    """The graph with operations on tensors of more than 5 dimensions written with 5 at most, where that can be.
    Reshapes to more are left for others to read, and go where nobody does."""
    many = {id(node) for node in graph.nodes if _too_many(node)}
    if not many:
        return graph
    names = taken_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _rewritten(node, names) if id(node) in many else [node]
    return rebuilt(graph, nodes)


def _too_many(node: Node) -> bool:
    return max([len(value.type.shape) for value in (*node.values(), *node.outputs)], default=0) > MOST


def _rewritten(node: Node, names: set[str]) -> tuple[Node, ...]:
    op = get_op(node.op)
    if op.fewer is None or op.moves is Movement.SHAPE:
        return (node,)
    rewriter = Rewriter(node, names)
    made = op.fewer(node, rewriter)
    return (node,) if made is None else rewriter.instead(made)
