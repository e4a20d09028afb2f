"""A model in a file, with the weights it comes with: what fine-tuning starts from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.errors import FormatError
from openane.graph import Graph, Node, Value
from openane.graph.graph import substituted
from openane.importers import load_graph
from openane.training.networks.network import INPUT, SCORES, Network

FOLDED = "softmax"


@dataclass(frozen=True)
class File:
    """`file` is any model the importers read. It is trained whole, or where `weights` names constants these alone. A
    softmax at its end is left out: scores are trained, and every class keeps its place. `input` names the input of a
    model that leaves its batch open."""

    file: str
    input: str = ""
    weights: tuple[str, ...] = ()

    def build(self, inputs: tuple[int, ...], classes: int, rng: np.random.Generator, base: Path) -> Network:
        """See `Description.build`. FormatError where input or output have other shapes than the data asks for."""
        graph = load_graph(base / self.file, {self.input: inputs} if self.input else None)
        if len(graph.inputs) != 1 or len(graph.outputs) != 1:
            raise FormatError(f"{self.file} must have one input and one output to be trained", expected="1 and 1",
                              found=f"{len(graph.inputs)} and {len(graph.outputs)}")
        return Network(_named(graph, inputs, classes), _weights(graph, self.weights))


def _named(graph: Graph, inputs: tuple[int, ...], classes: int) -> Graph:
    """The graph with its input and its scores called as training calls them."""
    scores, nodes = graph.outputs[0], graph.nodes
    made = graph.producers().get(id(scores))
    if made is not None and made.op == FOLDED:
        scores, nodes = made["x"], tuple(node for node in nodes if node is not made)
    if graph.inputs[0].shape != inputs or scores.shape != (inputs[0], classes):
        raise FormatError("model.file does not fit the data", expected=f"{list(inputs)} to {[inputs[0], classes]}",
                          found=f"{list(graph.inputs[0].shape)} to {list(scores.shape)}")
    x = Value(INPUT, graph.inputs[0].type)
    last = Value(SCORES, scores.type)
    nodes = tuple(substituted(node, {id(graph.inputs[0]): x}) for node in nodes)
    return Graph((x,), (*nodes, Node("identity", {"x": scores}, (last,), SCORES)), (last,), graph.name)


def _weights(graph: Graph, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Real constants that are arrays, those named or all, in fp32."""
    known = {value.name: value.data for node in graph.nodes for value in node.values()
             if isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f" and value.data.size > 1}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FormatError(f"model.weights: the model has no weight {unknown[0]!r}; it has {', '.join(known)}")
    return {name: array.astype(np.float32) for name, array in known.items() if not names or name in names}
