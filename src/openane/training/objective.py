"""The graph of a training step: the scores of a batch, and the gradients of the loss in the weights.

The loss is the cross entropy of the scores. The loss of each row is multiplied by the row's `importance` before all are
summed, and `importance` is an input that the host fills: the loss scale divided by the number of rows, and 0 for rows
that only fill up a batch. So one program serves every loss scale, and batches that are not full.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.graph import Graph
from openane.graph.graph import Node, Value, substituted
from openane.ops.build import GraphBuilder
from openane.training.gradient import gradient
from openane.training.gradient_weights import promote
from openane.training.networks.network import INPUT, SCORES, Network
from openane.training.watching import with_watch

TARGET, IMPORTANCE, LOSS = "target", "importance", "loss"
GRADIENT = "gradient_"


@dataclass(frozen=True)
class Objective:
    """`forward` gives the scores; `joint` gives the scores and the output `gradient_NAME` of every weight. The weights
    are inputs of both graphs. The graphs have not been made `computable` yet: whoever compiles one does that after
    deciding which weights are constants."""

    forward: Graph
    joint: Graph
    weights: tuple[str, ...]
    rows: int


def objective(network: Network, watch: str = "none") -> Objective:
    """The graphs to train a network with. Where `watch` is a level that watches anything, `joint` also has the output
    training.watching.WATCH. UnsupportedError where an operation has no gradient."""
    forward, _ = promote(network.graph, list(network.weights), runtime=False)
    whole = with_loss(forward)
    names = tuple(network.weights)
    made = gradient(whole, LOSS, names, runtime=False)
    wanted = {SCORES, *(f"{GRADIENT}{name}" for name in names)}
    joint = Graph(made.inputs, made.nodes, tuple(v for v in made.outputs if v.name in wanted), "training",
                  made.metadata)
    return Objective(forward, with_watch(joint, IMPORTANCE, watch), names, forward.outputs[0].shape[0])


def with_loss(graph: Graph) -> Graph:
    """The graph with inputs `target` [rows, classes] and `importance` [rows, 1], and an output `loss` []."""
    scores = graph.outputs[0]
    builder = GraphBuilder("loss")
    inner = builder.input(SCORES, "fp16", scores.shape)
    target = builder.input(TARGET, "fp16", scores.shape)
    importance = builder.input(IMPORTANCE, "fp16", (scores.shape[0], 1))
    partition = builder.single("reduce_log_sum_exp", "loss_partition", x=inner, axes=[1], keep_dims=True)
    chosen = builder.single("mul", "loss_chosen", x=inner, y=target)
    right = builder.single("reduce_sum", "loss_right", x=chosen, axes=[1], keep_dims=True)
    losses = builder.single("sub", "losses", x=partition, y=right)
    weighted = builder.single("mul", "loss_weighted", x=losses, y=importance)
    tail = builder.finish({LOSS: builder.single("reduce_sum", LOSS, x=weighted, axes=[0, 1], keep_dims=False)})
    nodes = tuple(substituted(node, {id(inner): scores}) for node in tail.nodes)
    made = Graph((*graph.inputs, target, importance), (*graph.nodes, *nodes), (scores, *tail.outputs), graph.name,
                 graph.metadata)
    made.verify()
    return made


def with_constant_weights(graph: Graph, weights: dict[str, np.ndarray]) -> Graph:
    """The graph with the inputs that are weights as constants of these numbers, rounded to fp16."""
    with np.errstate(over="ignore"):
        constants = {id(value): Value(value.name, value.type, weights[value.name].astype(np.float16))
                     for value in graph.inputs if value.name in weights}
    return Graph(tuple(value for value in graph.inputs if id(value) not in constants),
                 tuple(substituted(node, constants) for node in graph.nodes), graph.outputs, graph.name,
                 graph.metadata)


def with_state_weights(graph: Graph, names: tuple[str, ...]) -> Graph:
    """The graph with the inputs that are weights as states: buffers of the device that last from run to run."""
    reads, now, handles = list[Node](), dict[int, Value](), list[Value]()
    for value in graph.inputs:
        if value.name not in names:
            handles.append(value)
            continue
        handle, inner = Value(value.name, value.type), Value(f"{value.name}_now", value.type)
        reads.append(Node("read_state", {"input": handle}, (inner,), inner.name))
        handles.append(handle)
        now[id(value)] = inner
    nodes = (*reads, *(substituted(node, now) for node in graph.nodes))
    metadata = {**graph.metadata, **{f"state:{name}": "" for name in names}}
    return Graph(tuple(handles), nodes, graph.outputs, graph.name, metadata)


def batch_inputs(inputs: np.ndarray, labels: np.ndarray, classes: int, tokens: bool, real: int,
                 importance: float) -> dict[str, np.ndarray]:
    """What a step reads: x (one-hot for tokens), one-hot targets [rows, classes], importances [rows, 1]."""
    count = len(inputs)
    flat = labels.reshape(-1)
    shares = np.zeros((count, flat.size // count), np.float16)
    shares[:real] = importance
    x = one_hot(inputs, classes) if tokens else inputs
    return {INPUT: x, TARGET: one_hot(flat, classes), IMPORTANCE: shares.reshape(-1, 1)}


def one_hot(numbers: np.ndarray, classes: int) -> np.ndarray:
    """fp16 [..., classes]: 1 at each number, else 0."""
    made = np.zeros((numbers.size, classes), np.float16)
    made[np.arange(numbers.size), numbers.reshape(-1)] = 1
    return made.reshape(*numbers.shape, classes)


def cross_entropy(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The loss of each row [rows], of scores [rows, classes] as the engine gave them: fp64."""
    wide = scores.astype(np.float64)
    largest = wide.max(1)
    with np.errstate(invalid="ignore"):  # infinite scores have no loss
        partition = np.log(np.exp(wide - largest[:, None]).sum(1)) + largest
        losses: np.ndarray = partition - wide[np.arange(len(labels)), labels]
    return losses
