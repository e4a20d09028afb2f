"""gru: r, z = recurrent_activation(W_i x + W_h h + b), o = activation(W_io x + W_ho (r * h) + b_o),
h = (1 - z) * o + z * h, step by step; see recurrent.

Weights and bias are stacked r, o, z. The reset gate multiplies the state before the product, as Core ML computes it
(MIL's formula can also be read the other way).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.engine import Binary
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import recurrent, unrolled
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter

PARAMETERS = (
    Parameter("x"), Parameter("initial_h"), Parameter("weight_ih", const=True), Parameter("weight_hh", const=True),
    Parameter("bias", const=True, default=None), *recurrent.OPTIONS,
    recurrent.stated("recurrent_activation", "sigmoid"), recurrent.stated("activation", "tanh"),
)
FUNCTIONS = ("recurrent_activation", "activation")


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("gru", PARAMETERS, operands)
    x, hidden = recurrent.check(arguments, 3)
    recurrent.direction(arguments, recurrent.DIRECTIONS[:2])
    recurrent.check_activations(arguments, FUNCTIONS)
    return recurrent.result_types(arguments, x, hidden, ("initial_h",))


def _reference(*, x: np.ndarray, initial_h: np.ndarray, weight_ih: np.ndarray, weight_hh: np.ndarray,
               bias: np.ndarray | None, direction: str, output_sequence: np.ndarray, recurrent_activation: str,
               activation: str) -> tuple[np.ndarray, ...]:
    gate, candidate = (recurrent.ACTIVATIONS[name] for name in (recurrent_activation, activation))
    of_reset, of_candidate, of_update = np.split(weight_hh.astype(np.float64), 3)
    state, states = initial_h.astype(np.float64), []
    for step in recurrent.forward(len(x), direction == "reverse"):
        inputs = x[step].astype(np.float64) @ weight_ih.T + (0 if bias is None else bias)
        reset, new, update = np.split(inputs, 3, axis=1)
        reset, update = gate(reset + state @ of_reset.T), gate(update + state @ of_update.T)
        new = candidate(new + (reset * state) @ of_candidate.T)
        state = (1 - update) * new + update * state
        states.append(state)
    sequence = recurrent.order_made(states, not output_sequence)
    return sequence.astype(x.dtype), state.astype(x.dtype)


def _gates_first(stacked: np.ndarray) -> np.ndarray:
    """r, o, z stacked as r, z, o: what shares an activation side by side."""
    reset, new, update = np.split(stacked, 3)
    return np.concatenate([reset, update, new])


def _lower(node: Node, lowering: Lowering) -> None:
    """Ten engine operations per step."""
    arguments = Arguments("gru", PARAMETERS, node.operands)
    x, stacked = lowering.read(node["x"]), _gates_first(recurrent.weights(arguments, "weight_hh"))
    bias = recurrent.array(arguments, "bias")
    inputs = recurrent.projections(lowering, x, _gates_first(recurrent.weights(arguments, "weight_ih")),
                                   None if bias is None else _gates_first(bias))
    steps, batch, hidden = x.shape[0], x.shape[1], stacked.shape[1]
    sequence = lowering.scratch((steps, batch, hidden), (0, 2, 1))
    state = recurrent.turned(lowering, lowering.read(node["initial_h"]))
    names = tuple(str(arguments.constant(name)) for name in FUNCTIONS)
    backwards = recurrent.direction(arguments, recurrent.DIRECTIONS) == "reverse"
    for made, step in enumerate(recurrent.forward(steps, backwards)):
        before, state = state, recurrent.at(sequence, made)
        _step(lowering, state, before, recurrent.at(inputs, step), stacked, names)
    recurrent.settle_all(lowering, node, [sequence], [[state]])


def _step(lowering: Lowering, target: Tensor, state: Tensor, inputs: Tensor, stacked: np.ndarray,
          names: tuple[str, ...]) -> None:
    """target = new + update * (state - new)."""
    batch, hidden = state.shape
    total, weighted, sum_, below, share = (recurrent.column(lowering, batch, n * hidden) for n in (2, 1, 1, 1, 1))
    lowering.elementwise(total, recurrent.product(lowering, state, stacked[:2 * hidden]), inputs.part(1, 0, 2 * hidden))
    gates = recurrent.activated(lowering, total, names[0])
    lowering.elementwise(weighted, state, gates.part(1, 0, hidden), Binary.MULTIPLY)
    new = recurrent.product(lowering, weighted, stacked[2 * hidden:])
    lowering.elementwise(sum_, new, inputs.part(1, 2 * hidden, hidden))
    new = recurrent.activated(lowering, sum_, names[1])
    lowering.elementwise(below, state, new, subtract=True)
    lowering.elementwise(share, below, gates.part(1, hidden, hidden), Binary.MULTIPLY)
    lowering.elementwise(target, new, share)


def _expand(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    arguments = Arguments("gru", PARAMETERS, node.operands)
    names = tuple(str(arguments.constant(name)) for name in FUNCTIONS)
    backwards = recurrent.direction(arguments, recurrent.DIRECTIONS) == "reverse"
    inputs = unrolled.inputs_of_steps(rewriter, node["x"], node["weight_ih"], node.get("bias"))
    weights = unrolled.apart(rewriter, node["weight_hh"], 0, 3)
    state, states = node["initial_h"], []
    for step in recurrent.forward(len(inputs), backwards):
        state = _next(rewriter, state, inputs[step], weights, names)
        states.append(state)
    return unrolled.settled(rewriter, node, [states], [[state]])


def _next(rewriter: Rewriter, state: Value, inputs: Value, weights: Sequence[Value], names: tuple[str, ...]) -> Value:
    """new + update * (state - new)."""
    def total(part: Value, before: Value, weight: Value, name: str) -> Value:
        made = rewriter.single("add", x=unrolled.through(rewriter, before, weight), y=part)
        return unrolled.activated(rewriter, name, made)

    for_reset, for_new, for_update = unrolled.apart(rewriter, inputs, 1, 3)
    reset = total(for_reset, state, weights[0], names[0])
    update = total(for_update, state, weights[2], names[0])
    new = total(for_new, rewriter.single("mul", x=reset, y=state), weights[1], names[1])
    below = rewriter.single("sub", x=state, y=new)
    return rewriter.single("add", x=new, y=rewriter.single("mul", x=update, y=below))


OPS = (Op("gru", PARAMETERS, _infer, _reference, rules=(*ENGINE, recurrent.few_steps), lower=_lower, expand=_expand,
          channels_of=recurrent.CHANNELS),)
