"""Which constants of a graph are worth compressing: the weights and tables of its layers, from a size on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from openane.graph import Graph, Node, Value, numpy_type, substituted, with_data
from openane.graph.mil.packed import byte_count
from openane.ops import all_ops
from openane.ops.evaluate import evaluate_node
from openane.ops.spec import OperationEvidence

LEAST = 2048
"""Elements from which on a weight is compressed, unless one says otherwise."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A constant and the nodes that have it as their weight, the first of which gives the layer its name. `axis` is the
    dimension that has a scale for each place."""

    weight: Value
    axis: int
    nodes: tuple[Node, ...]

    @property
    def name(self) -> str:
        """What to call it: its node's name, or its weight's."""
        return self.nodes[0].name or self.weight.name

    @property
    def op(self) -> str:
        """The operation of its first node."""
        return self.nodes[0].op

    @property
    def size(self) -> int:
        """Bytes of the weight as it is."""
        return byte_count(self.weight.dtype, self.weight.type.elements)


def layers_of(graph: Graph, least: int = LEAST) -> list[Layer]:
    """The layers whose weights can be compressed, in the graph's order. A weight that several nodes share is one."""
    found: dict[int, Layer] = {}
    results = {id(value) for value in graph.outputs}
    for node in graph.nodes:
        for value, axis in _weights(node):
            if id(value) in found:
                known = found[id(value)]
                found[id(value)] = replace(known, nodes=(*known.nodes, node))
            elif value.type.elements >= least and id(value) not in results and _sound(value.array()):
                found[id(value)] = Layer(value, axis % value.type.rank, (node,))
    return list(found.values())


def _weights(node: Node) -> Iterator[tuple[Value, int]]:
    """The constants among the operands of a node that are worth compressing, and their dimension of channels."""
    op = all_ops().get(node.op)
    for name, axis in (op.channels_of if op is not None else {}).items():
        value = node.get(name)
        if value is not None and isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" \
                and value.type.rank > 1:
            yield value, axis(node)


def _sound(array: np.ndarray) -> bool:
    """Whether there is something to compress: finite numbers, not all of them 0."""
    return bool(np.isfinite(array).all() and array.any())


def computed_weights(graph: Graph) -> Graph:
    """The graph with weights that are computed from constants (a transposed table, a reshaped kernel) as constants.
    Operations on compressed weights stay."""
    known: dict[int, Value] = {}
    nodes: list[Node] = []
    results = {id(value) for value in graph.outputs}
    for node in graph.nodes:
        now = substituted(node, known)
        if not _foldable(now) or any(id(value) in results for value in now.outputs):
            nodes.append(now)
            continue
        for value, array in zip(now.outputs, evaluate_node(now, {}), strict=True):
            known[id(value)] = with_data(value, np.asarray(array).astype(numpy_type(value.dtype)))
    return replace(graph, nodes=tuple(nodes)) if known else graph


def _foldable(node: Node) -> bool:
    """Whether a node's results are constants, and no larger than what they are made of."""
    op = all_ops().get(node.op)
    if op is None or op.evidence is OperationEvidence.FOLDED:
        return False  # operations on compressed weights stay
    values = node.values()
    return all(value.constant for value in values) and \
        sum(value.type.elements for value in node.outputs) <= sum(value.type.elements for value in values)


def constant_bytes(graph: Graph) -> int:
    """Bytes of a graph's constants in a file, each counted once."""
    values: Mapping[int, Value] = {id(value): value for node in graph.nodes for value in node.values()
                                   if isinstance(value.data, np.ndarray)}
    return sum(byte_count(value.dtype, value.type.elements) for value in values.values())
