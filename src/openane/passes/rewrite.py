"""What passes share: rebuilding nodes and graphs with other values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Operand, TensorType, Value, mil_type


def substituted(node: Node, values: Mapping[int, Value]) -> Node:
    """The node with operands replaced (by id of the old value); itself when nothing changes."""
    if not any(id(value) in values for value in node.values()):
        return node

    def swap(operand: Operand) -> Operand:
        if isinstance(operand, tuple):
            return tuple(values.get(id(value), value) for value in operand)
        return values.get(id(operand), operand)

    return replace(node, operands={name: swap(operand) for name, operand in node.operands.items()})


def rebuilt(graph: Graph, nodes: Iterable[Node], outputs: Iterable[Value] | None = None) -> Graph:
    """The graph with other nodes (and outputs)."""
    return replace(graph, nodes=tuple(nodes), outputs=graph.outputs if outputs is None else tuple(outputs))


def constant(name: str, array: np.ndarray, like: Value) -> Value:
    """A constant of the element type of `like`."""
    with np.errstate(over="ignore"):
        data = np.asarray(array).astype(like.array().dtype, copy=False)
    return Value(name, TensorType(mil_type(data.dtype), data.shape), data)


def only_user(graph_users: Mapping[int, list[Node]], outputs: set[int], value: Value) -> Node | None:
    """The one node that reads `value`, None when there are others or it is an output of the graph."""
    users = graph_users.get(id(value), [])
    return users[0] if len(users) == 1 and id(value) not in outputs else None


def taken_names(graph: Graph) -> set[str]:
    """Names of the values a graph computes or is given: new ones must differ."""
    return {value.name for value in graph.inputs} | {value.name for node in graph.nodes for value in node.outputs}
