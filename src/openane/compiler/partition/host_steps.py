"""Operations the host computes between engine programs, for models that are compiled with leave to do so.

A graph is cut into steps, each a piece for the engine or one operation for the host, so that there are few of them:
everything the engine can do next is done before the host takes its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Node, Value, numpy_type
from openane.ops.evaluate import evaluate_node
from openane.passes.rewrite import substituted


@dataclass(frozen=True, slots=True)
class HostStep:
    """One operation computed by its reference on the host. Buffers are named after its operands and results."""

    node: Node

    @property
    def operands(self) -> tuple[Value, ...]:
        """What it reads while the model runs."""
        return tuple({id(value): value for value in self.node.values() if not value.constant}.values())

    @property
    def results(self) -> tuple[Value, ...]:
        """What it computes."""
        return self.node.outputs

    def run(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Results by name, in the element types the model states, for operands by name.

        Real numbers are computed in float32. GraphError when an operand is missing.
        """
        missing = [value.name for value in self.operands if value.name not in arrays]
        if missing:
            raise GraphError(f"{self.node.label}: operand {missing[0]!r} has not been computed")
        found = evaluate_node(self.node, {id(value): _working(arrays[value.name]) for value in self.operands})
        with np.errstate(all="ignore"):
            return {value.name: np.asarray(array).astype(numpy_type(value.dtype)).reshape(value.shape)
                    for value, array in zip(self.results, found, strict=True)}

    def graph(self, name: str) -> Graph:
        """The operation as a function called `name`: operands in, results out."""
        return Graph(self.operands, (self.node,), self.results, name)

    @staticmethod
    def of(graph: Graph, operands: Sequence[str], results: Sequence[str]) -> HostStep:
        """The step that `graph` gives back as a function, its buffers called as stated. GraphError when it is none."""
        if len(graph.nodes) != 1 or len(graph.inputs) != len(operands) or len(graph.outputs) != len(results) \
                or graph.outputs != graph.nodes[0].outputs:
            raise GraphError(f"function {graph.name!r} is not one operation of {len(operands)} operands and "
                             f"{len(results)} results")
        names = dict(zip(map(id, (*graph.inputs, *graph.outputs)), (*operands, *results), strict=True))
        renamed = {id(value): replace(value, name=names[id(value)]) for value in (*graph.inputs, *graph.outputs)}
        node = substituted(graph.nodes[0], renamed)
        return HostStep(replace(node, outputs=tuple(renamed[id(value)] for value in node.outputs)))


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that run together: one of the host's, or a piece for the engine."""

    nodes: tuple[Node, ...]
    host: bool


def partition(nodes: Iterable[Node], hosted: Mapping[int, str]) -> list[Part]:
    """The nodes in parts that can run one after another; `hosted` has the host's nodes by id(node)."""
    waiting = list(nodes)
    unmade = {id(value) for node in waiting for value in node.outputs}
    parts: list[Part] = []
    while waiting:
        for host in (False, True):
            taken: list[Node] = []
            left: list[Node] = []
            for node in waiting:
                ready = (id(node) in hosted) is host and not any(id(value) in unmade for value in node.values())
                (taken if ready else left).append(node)
                if ready:
                    unmade.difference_update(id(value) for value in node.outputs)
            waiting = left
            parts += [Part((node,), True) for node in taken] if host else [Part(tuple(taken), False)] if taken else []
    return parts


def piece(graph: Graph, nodes: Sequence[Node]) -> Graph:
    """Some of the graph's nodes as a graph: inputs are what they read and do not make, outputs what others need."""
    made = {id(value) for node in nodes for value in node.outputs}
    chosen = {id(node) for node in nodes}
    needed = {id(value) for value in graph.outputs}
    needed |= {id(value) for node in graph.nodes if id(node) not in chosen for value in node.values()}
    inputs = {id(value): value for node in nodes for value in node.values()
              if not value.constant and id(value) not in made}
    outputs = tuple(value for node in nodes for value in node.outputs if id(value) in needed)
    return Graph(tuple(inputs.values()), tuple(nodes), outputs, graph.name, graph.metadata)


def _working(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array
