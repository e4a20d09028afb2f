"""rnn: h = activation(W_ih x + W_hh h + bias), step by step; see recurrent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops import recurrent, unrolled
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

PARAMETERS = (
    Parameter("x"), Parameter("initial_h"), Parameter("weight_ih", const=True), Parameter("weight_hh", const=True),
    Parameter("bias", const=True, default=None), *recurrent.OPTIONS, recurrent.stated("activation", "tanh"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("rnn", PARAMETERS, operands)
    x, hidden = recurrent.check(arguments, 1)
    recurrent.direction(arguments, recurrent.DIRECTIONS[:2])
    recurrent.check_activations(arguments, ("activation",))
    return recurrent.result_types(arguments, x, hidden, ("initial_h",))


def _reference(*, x: np.ndarray, initial_h: np.ndarray, weight_ih: np.ndarray, weight_hh: np.ndarray,
               bias: np.ndarray | None, direction: str, output_sequence: np.ndarray,
               activation: str) -> tuple[np.ndarray, ...]:
    state, states = initial_h.astype(np.float64), []
    for step in recurrent.forward(len(x), direction == "reverse"):
        total = x[step] @ weight_ih.T + state @ weight_hh.T + (0 if bias is None else bias)
        state = recurrent.ACTIVATIONS[activation](total)
        states.append(state)
    sequence = recurrent.order_made(states, not output_sequence)
    return sequence.astype(x.dtype), state.astype(x.dtype)


def _lower(node: Node, lowering: Lowering) -> None:
    """A product, a sum and a table per step."""
    arguments = Arguments("rnn", PARAMETERS, node.operands)
    x, hidden_weights = lowering.read(node["x"]), recurrent.weights(arguments, "weight_hh")
    inputs = recurrent.projections(lowering, x, recurrent.weights(arguments, "weight_ih"),
                                   recurrent.array(arguments, "bias"))
    steps, batch, hidden = x.shape[0], x.shape[1], hidden_weights.shape[1]
    sequence = lowering.scratch((steps, batch, hidden), (0, 2, 1))
    found = recurrent.stage(lowering, str(arguments.constant("activation")))
    state = recurrent.turned(lowering, lowering.read(node["initial_h"]))
    backwards = recurrent.direction(arguments, recurrent.DIRECTIONS) == "reverse"
    for made, step in enumerate(recurrent.forward(steps, backwards)):
        before, state = state, recurrent.at(sequence, made)
        total = recurrent.column(lowering, batch, hidden) if found is not None else state
        lowering.elementwise(total, recurrent.product(lowering, before, hidden_weights), recurrent.at(inputs, step))
        if found is not None:
            lowering.copy(total, state, *found)
    recurrent.settle_all(lowering, node, [sequence], [[state]])


def _expand(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    arguments = Arguments("rnn", PARAMETERS, node.operands)
    backwards = recurrent.direction(arguments, recurrent.DIRECTIONS) == "reverse"
    inputs = unrolled.inputs_of_steps(rewriter, node["x"], node["weight_ih"], node.get("bias"))
    state, states = node["initial_h"], []
    for step in recurrent.forward(len(inputs), backwards):
        product = unrolled.through(rewriter, state, node["weight_hh"])
        total = rewriter.single("add", x=product, y=inputs[step])
        state = unrolled.activated(rewriter, str(arguments.constant("activation")), total)
        states.append(state)
    return unrolled.settled(rewriter, node, [states], [[state]])


OPS = (Op("rnn", PARAMETERS, _infer, _reference, rules=(*ENGINE, recurrent.few_steps), lower=_lower, expand=_expand,
          channels_of=recurrent.CHANNELS),)
