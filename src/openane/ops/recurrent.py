"""What lstm, gru and rnn share: x [s, b, I] is read step by step, and each step's state goes into the next.

The steps are unrolled. Every tensor [b, features] lies with its features as channels and the batch along rows, as
products read and write it; the inputs of all steps are multiplied by their weights in one convolution. With direction
"reverse" the sequence of states comes out in the order it is made, as Core ML does; the backward half of
"bidirectional" comes out in the order of x.

Precision: gates come from tables (sigmoid within 0.0031, tanh within 0.0017) and states are rounded to fp16; gates pull
states back, so errors do not pile up: states of up to 32 steps of 128 features were within 0.01 of exact ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.graph import Node, TensorType, Value
from openane.ops import functions
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Parameter, Stage
from openane.ops.tensor import as_planes
from openane.ops.unary import record
from openane.ops.unary import stage as stage_of

STEPS = 1024
"""Steps one operation is unrolled into: each takes three to a dozen engine operations."""
DIRECTIONS = ("forward", "reverse", "bidirectional")

ACTIVATIONS: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "scaled_tanh": np.tanh,
    "sigmoid": functions.sigmoid,
    "sigmoid_hard": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
}
"""Activations by the names MIL and its converters use; those with settings at their standard ones."""


def stated(name: str, default: str) -> Parameter:
    """A parameter that names an activation or a direction."""
    return Parameter(name, const=True, default=default, kind="string")


CHANNELS: Mapping[str, Callable[[Node], int]] = {
    f"{name}{side}": lambda node: 0 for side in ("", "_back") for name in ("weight_ih", "weight_hh")}
"""Matrices worth compressing, by rows: see Op.channels_of."""
OPTIONS = (stated("direction", "forward"), Parameter("output_sequence", const=True, default=False, kind="bool"))


def check(arguments: Arguments, gates: int, suffix: str = "", bias: str = "bias") -> tuple[Value, int]:
    """x, and how many hidden features the weights of one direction have. GraphError when they do not fit."""
    x = arguments.tensor("x", ranks=(3, 3))
    hidden_weights = arguments.tensor(f"weight_hh{suffix}", (x.dtype,), (2, 2))
    hidden = hidden_weights.shape[1]
    arguments.like(f"weight_hh{suffix}", x, (gates * hidden, hidden))
    arguments.like(f"weight_ih{suffix}", x, (gates * hidden, x.shape[2]))
    arguments.like(f"{bias}{suffix}", x, (gates * hidden,))
    return x, hidden


def result_types(arguments: Arguments, x: Value, features: int, states: Sequence[str]) -> tuple[TensorType, ...]:
    """Types of the sequence and of each final state; initial states are checked on the way."""
    for name in states:
        arguments.like(name, x, (x.shape[1], features))
    length = x.shape[0] if arguments.flag("output_sequence") else 1
    state = TensorType(x.dtype, (x.shape[1], features))
    return (TensorType(x.dtype, (length, x.shape[1], features)), *(state for _ in states))


def direction(arguments: Arguments, choices: Sequence[str]) -> str:
    """The stated direction, one of `choices`."""
    return arguments.text("direction", choices)


def check_activations(arguments: Arguments, names: Sequence[str]) -> None:
    """GraphError when a stated activation is not one of ACTIVATIONS."""
    for name in names:
        arguments.text(name, tuple(ACTIVATIONS))


def few_steps(node: Node, limits: Limits) -> bool:
    """The sequence may have at most 1024 steps: each becomes engine operations of its own; cut longer ones and carry
    the states over."""
    return node["x"].shape[0] <= STEPS


def forward(steps: int, backwards: bool) -> range:
    """The order in which steps are made."""
    return range(steps - 1, -1, -1) if backwards else range(steps)


def order_made(states: Sequence[np.ndarray], last_only: bool) -> np.ndarray:
    """[s, b, H] of states as they were made, or [1, b, H] of the last."""
    return np.stack(states[-1:] if last_only else states)


def stage(lowering: Lowering, name: str) -> Stage | None:
    """The post stage of an activation; None for the identity."""
    if name == "linear":
        return None
    settings: dict[str, Any] = {"alpha": 0.2, "beta": 0.5}
    known = {"hard_sigmoid": "sigmoid_hard", "scaled_tanh": "tanh"}
    found = stage_of(lowering, record(known.get(name, name)), settings)
    assert found is not None, "every activation of a cell is a post stage"
    return found


def column(lowering: Lowering, batch: int, features: int) -> Tensor:
    """New storage [batch, features], features as channels."""
    return lowering.scratch((batch, features), (1, 0))


def turned(lowering: Lowering, tensor: Tensor) -> Tensor:
    """[b, features] with its features as channels."""
    target = column(lowering, *tensor.shape)
    lowering.copy(tensor, target)
    return target


def activated(lowering: Lowering, source: Tensor, name: str) -> Tensor:
    """The activation of [b, features]."""
    found = stage(lowering, name)
    if found is None:
        return source
    target = column(lowering, *source.shape)
    lowering.copy(source, target, *found)
    return target


def projections(lowering: Lowering, x: Tensor, weights: np.ndarray, bias: np.ndarray | None) -> Tensor:
    """[s, b, gates] = x [s, b, I] @ weights [gates, I]^T + bias for all steps: one convolution with the steps as
    images."""
    steps, batch, _ = x.shape
    source, target = (lowering.scratch((steps, batch, n), (0, 2, 1)) for n in (x.shape[2], weights.shape[0]))
    lowering.copy(x, source)
    images, results = (as_planes(tensor.transpose((0, 2, 1))) for tensor in (source, target))
    lowering.convolution(results, images, weights[:, :, None, None], bias)
    return target


def at(sequence: Tensor, step: int) -> Tensor:
    """One step [b, features] of [s, b, features]."""
    return sequence.seen(sequence.offset + step * sequence.strides[0], sequence.shape[1:], sequence.strides[1:])


def product(lowering: Lowering, state: Tensor, weights: np.ndarray) -> Tensor:
    """state [b, H] @ weights [gates, H]^T."""
    target = column(lowering, state.shape[0], weights.shape[0])
    lowering.product(target, state, weights.T, None)
    return target


def settle(lowering: Lowering, value: Value, parts: Sequence[Tensor], axis: int) -> None:
    """Writes a result from its directions, side by side along `axis`."""
    target = lowering.result(value)
    if len(parts) == 1:
        lowering.copy(parts[0], target)
    else:
        lowering.join(target, parts, axis)


def settle_all(lowering: Lowering, node: Node, sequences: Sequence[Tensor], last: Sequence[Sequence[Tensor]]) -> None:
    """Writes the sequence (or its last step) and the final states, each given once per direction."""
    whole = Arguments(node.op, (*OPTIONS,), node.operands).flag("output_sequence")
    parts = sequences if whole else [state.seen(state.offset, (1, *state.shape), (0, *state.strides))
                                     for state in last[0]]
    settle(lowering, node.outputs[0], parts, 2)
    for value, states in zip(node.outputs[1:], last, strict=True):
        settle(lowering, value, states, 1)


def array(arguments: Arguments, name: str) -> np.ndarray | None:
    """A constant tensor operand, None when left out."""
    data = arguments.constant(name)
    return data if isinstance(data, np.ndarray) else None


def weights(arguments: Arguments, name: str) -> np.ndarray:
    """A constant tensor operand that is needed. GraphError when it is missing."""
    data = array(arguments, name)
    if data is None:
        raise refusal(arguments.op, name, "is missing")
    return data
