"""A gain and an offset per channel one after the other become one batch_norm node: one operation, and what follows it
can be fused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openane.graph import Graph, Node, RoundedConstant, TensorType, Value
from openane.ops.affine import factor, summand
from openane.ops.batch_norm import gain_then_offset
from openane.passes.rewrite import only_user, rebuilt, taken_names


def merge_affine(graph: Graph) -> Graph:
    """The graph with mul and add of constants per channel (dimension 1 of 3 to 5) merged where they are neighbours."""
    if all(factor(node) is None for node in graph.nodes):
        return graph
    users, outputs = graph.users(), {id(value) for value in graph.outputs}
    names = taken_names(graph)
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        gain = _vector(node, factor)
        user = only_user(users, outputs, node.output) if gain is not None else None
        offset = None if user is None else _vector(user, summand)
        if gain is None or offset is None or user is None:
            nodes.append(node)
            continue
        gone.add(id(user))
        x = node["y"] if node["x"].constant else node["x"]
        nodes += gain_then_offset(replace(node, outputs=user.outputs), x, gain, offset, names)
    return rebuilt(graph, nodes)


def _vector(node: Node, operand: Callable[[Node], Value | None]) -> Value | None:
    """The constant per channel that `node` multiplies or adds; None when it does something else."""
    if operand(node) is None or node.output.type.rank not in (3, 4, 5):
        return None
    for constant, other in ((node["x"], node["y"]), (node["y"], node["x"])):
        if constant.constant and not other.constant and other.type == node.output.type:
            return _per_channel(constant, other)
    return None


def _per_channel(constant: Value, x: Value) -> Value | None:
    shape = (1,) * (x.type.rank - constant.type.rank) + constant.shape
    if x.shape[1] == 1 or shape != tuple(extent if d == 1 else 1 for d, extent in enumerate(x.shape)):
        return None
    vector = constant.array().reshape(-1)  # shares its memory, by which new weights find it
    type_ = TensorType(constant.dtype, vector.shape)
    if isinstance(constant, RoundedConstant):
        return RoundedConstant(constant.name, type_, vector, stated=constant.digits().reshape(-1))
    return Value(constant.name, type_, vector)
