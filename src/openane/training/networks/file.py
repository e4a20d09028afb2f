"""A model in a file, with the weights it comes with: what fine-tuning starts from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.errors import FormatError
from openane.graph import Graph, Value, copy_of, substituted
from openane.importers import load_graph
from openane.ops import get_op
from openane.training.networks.choice import candidates, chosen
from openane.training.networks.network import INPUT, SCORES, Network

LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class File:
    """`file` is any model the importers read. Its weights are trained (see training.networks.choice), or where
    `weights` names constants these alone. A softmax at its end is left out: scores are trained, and every class keeps
    its place. `input` names the input of a model that leaves its batch open."""

    file: str
    input: str = ""
    weights: tuple[str, ...] = ()

    def build(self, inputs: tuple[int, ...], classes: int, rng: np.random.Generator, base: Path) -> Network:
        """See `Description.build`. FormatError where input or output have other shapes than the data asks for, or
        there is nothing to train."""
        path = base / self.file
        try:
            graph = load_graph(path, {self.input: inputs} if self.input else None)
            digest = _digest(path)
        except OSError as error:
            raise FormatError(f"{path} cannot be read: {error.strerror or error}") from None
        if len(graph.inputs) != 1 or len(graph.outputs) != 1:
            raise FormatError(f"{self.file} must have one input and one output to be trained", expected="1 and 1",
                              found=f"{len(graph.inputs)} and {len(graph.outputs)}")
        weights = _weights(graph, self.weights, self.file)
        return Network(_named(graph, inputs, classes), weights,
                       tuple(name for name in candidates(graph) if name not in weights), digest)


def _digest(path: Path) -> str:
    """Tells models apart by what is in the file, or in the files of the folder, in hexadecimal. OSError."""
    said = hashlib.blake2b(digest_size=8)
    for part in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if part.is_file():
            with part.open("rb") as file:
                said.update(hashlib.file_digest(file, "blake2b").digest())
            said.update(part.relative_to(path).as_posix().encode())
    return said.hexdigest()


def _named(graph: Graph, inputs: tuple[int, ...], classes: int) -> Graph:
    """The graph with its input and its scores called as training calls them."""
    scores, nodes = graph.outputs[0], graph.nodes
    made = graph.producers().get(id(scores))
    if made is not None and get_op(made.op).scores and made.get("scale") is None:
        scores, nodes = made["x"], tuple(node for node in nodes if node is not made)
    if graph.inputs[0].shape != inputs or scores.shape != (inputs[0], classes):
        raise FormatError("model.file does not fit the data", expected=f"{list(inputs)} to {[inputs[0], classes]}",
                          found=f"{list(graph.inputs[0].shape)} to {list(scores.shape)}")
    x = Value(INPUT, graph.inputs[0].type)
    last = Value(SCORES, scores.type)
    nodes = tuple(substituted(node, {id(graph.inputs[0]): x}) for node in nodes)
    return Graph((x,), (*nodes, copy_of(scores, last)), (last,), graph.name)


def _weights(graph: Graph, names: tuple[str, ...], file: str) -> dict[str, np.ndarray]:
    """The constants that are trained, those named or those that are weights, in fp32."""
    known = candidates(graph)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FormatError(f"model.weights: the model has no weight {unknown[0]!r}; it has {', '.join(known)}")
    taken = names or chosen(graph)
    if not taken:
        raise FormatError(f"{file} has no constant that is a weight by what it is used for; name those to be trained "
                          f"as model.weights: {', '.join(known) or 'it has none at all'}")
    for name in taken:
        largest = float(np.abs(known[name].astype(np.float32)).max(initial=0))
        if not largest <= LARGEST:
            raise FormatError(f"{file}: weight {name!r} has numbers that fp16, in which the engine sees it, does not "
                              "hold; scale the layer, or leave it out of model.weights",
                              expected=f"at most {LARGEST:g}", found=f"{largest:g}")
    return {name: array.astype(np.float32) for name, array in known.items() if name in taken}
