"""A graph with stored weights in place of its constants, or with what they give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Value, substituted, with_data
from openane.graph.mil.program import OPSETS
from openane.quantization.forms import PACKED_OPSETS, StoredWeight
from openane.quantization.layers import Layer

FIRST_OPSET = "ios16"
"""The first that has operations on compressed weights."""


def opset_of(graph: Graph) -> str:
    """The opset a graph is written in once its weights are compressed: its own, or the first that has them."""
    own = graph.metadata.get("opset", "")
    return "ios18" if own not in OPSETS else max(own, FIRST_OPSET)


def packs_bits(graph: Graph) -> bool:
    """Whether its opset stores palettes and masks as bytes of bits."""
    return opset_of(graph) in PACKED_OPSETS


def with_stored(graph: Graph, stored: Sequence[tuple[Layer, StoredWeight]]) -> Graph:
    """The graph whose weights are made by operations on compressed constants, in front of all others."""
    if not stored:
        return graph
    taken = {value.name for value in (*graph.inputs, *(each for node in graph.nodes for each in node.outputs))}
    made: dict[int, Value] = {}
    nodes: list[Node] = []
    biases = _biases(stored)
    for layer, weight in stored:
        name = _unused(layer.weight.name, taken)
        made[id(layer.weight)] = result = Value(name, layer.weight.type)
        source, behind = layer.nodes[0].source, weight.behind
        if behind is not None:
            first = Value(_unused(f"{name}_channels", taken), layer.weight.type)
            nodes.append(Node(weight.operation.name, weight.operation.values(first.name), (first,), first.name, source))
            nodes.append(Node(behind.name, {"data": first, **behind.values(name)}, (result,), name, source))
        else:
            nodes.append(Node(weight.operation.name, weight.operation.values(name), (result,), name, source))
    own = graph.metadata.get("opset")
    metadata = graph.metadata if own is None else {**graph.metadata, "opset": opset_of(graph)}
    return replace(graph, nodes=(*nodes, *(substituted(with_bias(node, biases), made) for node in graph.nodes)),
                   metadata=metadata)


def with_arrays(graph: Graph, stored: Sequence[tuple[Layer, StoredWeight]]) -> Graph:
    """The graph with what the stored weights give back as constants: it computes what the other form does."""
    values: Mapping[int, Value] = {id(layer.weight): with_data(layer.weight, weight.array)
                                   for layer, weight in stored}
    biases = _biases(stored)
    return replace(graph, nodes=tuple(substituted(with_bias(node, biases), values) for node in graph.nodes))


def with_bias(node: Node, biases: Mapping[int, np.ndarray]) -> Node:
    """The node with another bias, where it reads one of the weights that have one, by id."""
    found = next((biases[id(value)] for value in node.values() if id(value) in biases), None)
    if found is None:
        return node
    return replace(node, operands={**node.operands, "bias": with_data(node["bias"], found)})


def _biases(stored: Sequence[tuple[Layer, StoredWeight]]) -> dict[int, np.ndarray]:
    return {id(layer.weight): weight.bias for layer, weight in stored if weight.bias is not None}


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
