"""Gives a graph's outputs the names the model states, whatever their values were called while they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from openane.graph import Graph, Node, Value
from openane.graph.graph import substituted


def renamed(graph: Graph, names: Mapping[int, str]) -> Graph:
    """`graph` with the values in `names` (by id) called so; others that have such a name get one of their own."""
    changed = _changed(graph, names)
    if not changed:
        return graph

    def now(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(changed.get(id(value), value) for value in values)

    def renamed_node(node: Node) -> Node:
        node = substituted(node, changed)
        return node if changed.keys().isdisjoint(map(id, node.outputs)) else replace(node, outputs=now(node.outputs))

    return replace(graph, nodes=tuple(map(renamed_node, graph.nodes)), outputs=now(graph.outputs))


def _changed(graph: Graph, names: Mapping[int, str]) -> dict[int, Value]:
    """The values that have another name then, by id of the old one."""
    made = [value for node in graph.nodes for value in node.outputs]
    taken = {value.name for value in (*graph.inputs, *made)}
    wanted = set(names.values())
    changed: dict[int, Value] = {}
    for value in made:
        name = names.get(id(value))
        if name is None and value.name in wanted:
            name = next(free for count in range(len(taken) + 1) if (free := f"{value.name}.{count}") not in taken)
            taken.add(name)
        if name is not None and name != value.name:
            changed[id(value)] = replace(value, name=name)
    return changed
