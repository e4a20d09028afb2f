"""Operations that run as several others are replaced by them, so that later passes see what will run."""

from __future__ import annotations

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.rewriter import Rewriter
from openane.passes.rewrite import rebuilt, taken_names


def decompose(graph: Graph) -> Graph:
    """The graph without nodes whose operation has a decomposition, or whose weights are computed while the program runs
    and are wanted as constants. Results keep their names; what makes them has the label of the user's node as its
    source."""
    if all(get_op(node.op).apart(node) is None for node in graph.nodes):
        return graph
    names = taken_names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _parts(node, names, node.label)
    return rebuilt(graph, nodes)


def _parts(node: Node, names: set[str], source: str) -> list[Node]:
    write = get_op(node.op).apart(node)
    if write is None:
        return [node]
    rewriter = Rewriter(node, names, source)
    made = write(node, rewriter)
    if made is None:  # it takes its weights as they are
        return [node]
    return [inner for part in rewriter.instead(made) for inner in _parts(part, names, source)]
