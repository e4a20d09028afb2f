"""Gives a graph's outputs the names the model states, whatever their values were called while they were made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from openane.graph import Graph, Node, Operand, Value


def renamed(graph: Graph, names: Mapping[int, str]) -> Graph:
    """`graph` with the values in `names` (by id) called so; others that have such a name get one of their own."""
    taken = {value.name for value in (*graph.inputs, *(value for node in graph.nodes for value in node.outputs))}
    wanted = set(names.values())
    changed: dict[int, Value] = {}
    for value in (value for node in graph.nodes for value in node.outputs):
        name = names.get(id(value))
        if name is None and value.name in wanted:
            name = next(free for count in range(len(taken) + 1) if (free := f"{value.name}.{count}") not in taken)
            taken.add(name)
        if name is not None and name != value.name:
            changed[id(value)] = replace(value, name=name)
    if not changed:
        return graph

    def now(value: Value) -> Value:
        return changed.get(id(value), value)

    def operand(given: Operand) -> Operand:
        return tuple(map(now, given)) if isinstance(given, tuple) else now(given)

    nodes = tuple(Node(node.op, {key: operand(given) for key, given in node.operands.items()},
                       tuple(map(now, node.outputs)), node.name, node.source) for node in graph.nodes)
    return replace(graph, nodes=nodes, outputs=tuple(map(now, graph.outputs)))
