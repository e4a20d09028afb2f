"""Nodes that compute what another one has computed already: backward passes take up pieces of the forward pass."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Operand, Value, substituted
from openane.ops import all_ops

SHORT = 64
"""Elements up to which constants are compared; longer ones count as the same only when they are one object."""


def without_repeats(graph: Graph) -> Graph:
    """The graph with one node for all that apply the same operation to the same operands. Outputs keep their names."""
    outputs = {id(value) for value in graph.outputs}
    seen: dict[Hashable, Node] = {}
    instead: dict[int, Value] = {}
    nodes: list[Node] = []
    for old in graph.nodes:
        node = substituted(old, instead)
        key = (node.op, tuple((name, _key(operand)) for name, operand in sorted(node.operands.items())))
        first = seen.setdefault(key, node) if node.op in all_ops() else node  # reads of states are not the same
        if first is node or any(id(value) in outputs for value in node.outputs):
            nodes.append(node)
        else:
            instead.update({id(value): other for value, other in zip(node.outputs, first.outputs, strict=True)})
    return replace(graph, nodes=tuple(nodes))


def _key(operand: Operand) -> Hashable:
    """What two operands that hold the same have in common."""
    if isinstance(operand, tuple):
        return tuple(map(_key, operand))
    data = operand.data
    if isinstance(data, str):
        return data
    if isinstance(data, np.ndarray) and data.size <= SHORT:
        return operand.type.dtype, operand.shape, data.tobytes()
    return id(operand)
