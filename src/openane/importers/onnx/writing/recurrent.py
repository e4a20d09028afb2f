"""lstm, gru and rnn as ONNX nodes: gates in ONNX's order, directions as a dimension of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode
from openane.ops.recurrent import ACTIVATIONS

GATES = {"lstm": (0, 2, 1, 3), "gru": (2, 0, 1), "rnn": (0,)}
"""Which of MIL's gates (i f o z; r h z) is each of ONNX's (i o f c; z r h)."""
PEEPHOLES = (0, 2, 1)
FUNCTIONS = {"lstm": ("recurrent_activation", "cell_activation", "activation"),
             "gru": ("recurrent_activation", "activation"), "rnn": ("activation",)}
NAMES = {"linear": "Affine", "relu": "Relu", "tanh": "Tanh", "scaled_tanh": "Tanh", "sigmoid": "Sigmoid",
         "sigmoid_hard": "HardSigmoid", "hard_sigmoid": "HardSigmoid"}
"""ONNX's activations; their settings are its defaults."""


def _ordered(array: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Parts of the first dimension, one for each gate, in ONNX's order."""
    parts = np.split(array, len(order))
    return np.concatenate([parts[place] for place in order])


def _stacked(step: OutgoingNode, name: str, order: Sequence[int], sides: Sequence[str], double: bool = False) -> str:
    """A constant of each direction, stacked; "" where none has it. ONNX's biases have a second half, of zeros."""
    values = [step.node.get(f"{name}{side}") for side in sides]
    first = next((value for value in values if value is not None), None)
    if first is None:
        return ""
    arrays = [np.zeros_like(step.model.numbers(first)) if value is None
              else _ordered(step.model.numbers(value), order) for value in values]
    return step.model.constant(np.stack([np.concatenate([a, np.zeros_like(a)]) if double else a for a in arrays]))


def _state(step: OutgoingNode, name: str, count: int) -> str:
    """A state [b, directions * H] as [directions, b, H]."""
    batch, features = step.node[name].shape
    return step.transpose(step.reshape(step.read(name), (batch, count, features // count)), (1, 0, 2))


def _recurrent(step: OutgoingNode) -> list[str]:
    op, settings = step.node.op, step.arguments
    if op == "lstm" and settings.given("clip"):
        raise step.refuse("what ONNX's LSTM clips is the input of its gates", "clip, which bounds the cell",
                          "without clip, or with clip operations between steps")
    order, way = GATES[op], settings.text("direction", ("forward", "reverse", "bidirectional"))
    sides = ("", "_back") if way == "bidirectional" else ("",)
    inputs = [step.read(), *(_stacked(step, name, order, sides) for name in ("weight_ih", "weight_hh")),
              _stacked(step, "bias", order, sides, double=True), "", _state(step, "initial_h", len(sides))]
    if op == "lstm":
        holes = _stacked(step, "peephole", PEEPHOLES, sides)
        inputs += [_state(step, "initial_c", len(sides)), *([holes] if holes else [])]
    hidden = step.node["weight_hh"].shape[1]
    functions = [NAMES[settings.text(name, tuple(ACTIVATIONS))] for name in FUNCTIONS[op]] * len(sides)
    every, *states = step.several(op.upper(), inputs, 3 if op == "lstm" else 2, direction=way, hidden_size=hidden,
                                  activations=functions)
    lasts = [step.reshape(step.transpose(state, (1, 0, 2)), value.shape)
             for state, value in zip(states, step.node.outputs[1:], strict=True)]
    sequence = step.node.outputs[0].shape
    if not settings.flag("output_sequence"):
        return [step.reshape(lasts[0], sequence), *lasts]
    made = step.reshape(step.transpose(every, (0, 2, 1, 3)), sequence)
    if way == "reverse":  # MIL's sequence is in the order in which it is made, ONNX's in that of x
        made = step.add("Slice", made, *map(step.integers, ([-1], [-sequence[0] - 1], [0], [-1])))
    return [made, *lasts]


WRITERS: Mapping[str, Writer] = dict.fromkeys(GATES, _recurrent)
"""By the name of the operation."""
