"""Graphs of one operation whose operands are what one does not expect: constants, or all the same value, with results
that are read and handed out as well.

A lowering looks for its operands among values the program computes; here they are something else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np

from openane.graph import Graph, Node, Value, numpy_type, substituted

FEW = 3
"""Inputs of which every choice is made constant; of more, each one and all of them."""


def unexpected(graph: Graph, inputs: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Graph]]:
    """What was changed, and the graph with it."""
    for some in _choices(graph.inputs):
        constants = {id(value): Value(value.name, value.type, inputs[value.name].astype(numpy_type(value.dtype)))
                     for value in some}
        yield f"constant: {', '.join(value.name for value in some)}", _with(graph, constants)
    for first, second in combinations(graph.inputs, 2):
        if first.type == second.type:
            yield f"{second.name} is {first.name}", _with(graph, {id(second): first})
    yield "results read again", _read_again(graph)


def _choices(values: tuple[Value, ...]) -> list[tuple[Value, ...]]:
    if len(values) <= FEW:
        return [some for count in range(1, len(values) + 1) for some in combinations(values, count)]
    return [*((value,) for value in values), values]


def _with(graph: Graph, changed: Mapping[int, Value]) -> Graph:
    """The graph with other values in place of inputs."""
    return replace(graph, inputs=tuple(value for value in graph.inputs if id(value) not in changed),
                   nodes=tuple(substituted(node, changed) for node in graph.nodes),
                   outputs=tuple(value for value in graph.outputs if id(value) not in changed))


def _read_again(graph: Graph) -> Graph:
    """Every fp16 result is also added to itself, which is one more output."""
    twice = {value: Value(f"{value.name}_twice", value.type) for value in graph.outputs if value.dtype == "fp16"}
    nodes = tuple(Node("add", {"x": value, "y": value}, (made,), made.name) for value, made in twice.items())
    return replace(graph, nodes=(*graph.nodes, *nodes), outputs=(*graph.outputs, *twice.values()))
