"""A reshape, or a transposition, followed by a function of single elements: the function goes first, so that it can be
fused with what made its operand, and the movement often becomes free."""

from __future__ import annotations

from dataclasses import replace

from openane.graph import Graph, Node, TensorType, Value
from openane.ops import get_op
from openane.ops.affine import power_of_two
from openane.ops.spec import Movement
from openane.passes.folded_once import made_once
from openane.passes.rewrite import only_user, rebuilt

FLOATS = ("fp16", "fp32")


@made_once
def sink_reshapes(graph: Graph) -> Graph:
    """The graph with views and transpositions moved behind elementwise nodes that alone read them."""
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    views: dict[int, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        view = views.get(id(node.get("x")))
        view = view if view is not None and _elementwise(node) else None
        if view is None or view["x"].dtype not in FLOATS or _enters(node, only_user(users, outputs, node.output)):
            nodes.append(node)
            if _goes_behind(node) and only_user(users, outputs, node.output) is not None:
                views[id(node.output)] = node
            continue
        before = view["x"]
        between = Value(view.output.name, TensorType(node.output.dtype, before.shape))
        nodes.remove(view)
        nodes.append(replace(node, operands={**node.operands, "x": before}, outputs=(between,)))
        moved = replace(view, operands={**view.operands, "x": between}, outputs=node.outputs)
        nodes.append(moved)
        if only_user(users, outputs, node.output) is not None:
            views[id(node.output)] = moved
    return rebuilt(graph, nodes)


def _goes_behind(node: Node) -> bool:
    """Whether a function may go before a node: a view, or a transposition that makes no longer rows of numbers, as
    what has short rows takes longer."""
    op = get_op(node.op)
    return op.views(node) or (op.moves is Movement.DIMENSIONS and not node["x"].constant
                              and node["x"].shape[-1] >= node.output.shape[-1])


def _enters(node: Node, user: Node | None) -> bool:
    """A product with a power of two that a planar operation of two tensors does as it reads them."""
    arithmetic = None if user is None else get_op(user.op).arithmetic
    return user is not None and arithmetic is not None and arithmetic.planar is not None \
        and not any(value.constant for value in user.values()) and power_of_two(node) is not None


def _elementwise(node: Node) -> bool:
    """One operand x, everything else scalar constants, and a result of x's shape and type."""
    x = node.get("x")
    if x is None or x.constant or len(node.outputs) != 1 or node.output.type != x.type:
        return False
    op = get_op(node.op)
    if op.unary is not None:
        return True
    y = node.get("y")
    return op.arithmetic is not None and y is not None and y.constant and y.type.elements == 1 and y.type.rank == 0
