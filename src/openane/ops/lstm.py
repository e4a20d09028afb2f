"""lstm: i, f, o = recurrent_activation(...), z = cell_activation(...), c = f * c + i * z, h = o * activation(c), step
by step in one or both directions; see recurrent.

Weights and bias are stacked i, f, o, z, peepholes i, f, o: they add c times a vector to the gates, the o gate the new
c. `clip` bounds c, as in the cells Core ML's converters make it of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.engine import Activation, Binary, Post
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import lstm_steps, recurrent, tables, unrolled
from openane.ops.halves import half
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, Parameter
from openane.record_classes import dataclass

SIDE = ("weight_ih", "weight_hh", "bias", "peephole")
PARAMETERS = (
    Parameter("x"), Parameter("initial_h"), Parameter("initial_c"),
    Parameter("weight_ih", const=True), Parameter("weight_hh", const=True),
    Parameter("bias", const=True, default=None), Parameter("peephole", const=True, default=None),
    *(Parameter(f"{name}_back", const=True, default=None) for name in SIDE),
    *recurrent.OPTIONS, recurrent.stated("recurrent_activation", "sigmoid"),
    recurrent.stated("cell_activation", "tanh"), recurrent.stated("activation", "tanh"),
    Parameter("clip", const=True, default=None),
)
FUNCTIONS = ("recurrent_activation", "cell_activation", "activation")


@dataclass(frozen=True, slots=True)
class Side:
    """One direction: its weights, and whether it reads x from the end."""

    inputs: np.ndarray
    hidden: np.ndarray
    bias: np.ndarray | None
    peephole: np.ndarray | None
    backwards: bool

    @property
    def peepholes(self) -> list[np.ndarray] | None:
        """The vectors of i, f and o."""
        return None if self.peephole is None else np.split(self.peephole, 3)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("lstm", PARAMETERS, operands)
    both = recurrent.direction(arguments, recurrent.DIRECTIONS) == "bidirectional"
    x, hidden = recurrent.check(arguments, 4)
    arguments.like("peephole", x, (3 * hidden,))
    if both:
        if not (arguments.given("weight_ih_back") and arguments.given("weight_hh_back")):
            raise refusal("lstm", "weight_ih_back", "and weight_hh_back must be given for a bidirectional lstm")
        if recurrent.check(arguments, 4, "_back")[1] != hidden:
            raise refusal("lstm", "weight_hh_back", f"must have {hidden} hidden features, as weight_hh has")
        arguments.like("peephole_back", x, (3 * hidden,))
    recurrent.check_activations(arguments, FUNCTIONS)
    if arguments.given("clip") and arguments.number("clip") <= 0:
        raise refusal("lstm", "clip", "must be more than 0", arguments.number("clip"))
    return recurrent.result_types(arguments, x, hidden * (2 if both else 1), ("initial_h", "initial_c"))


def _reference(*, x: np.ndarray, initial_h: np.ndarray, initial_c: np.ndarray, direction: str,
               output_sequence: np.ndarray, recurrent_activation: str, cell_activation: str, activation: str,
               clip: np.ndarray | None, **weights: np.ndarray | None) -> tuple[np.ndarray, ...]:
    names = (recurrent_activation, cell_activation, activation)
    sides = _sides(weights, direction)
    count = len(sides)
    starts = zip(np.split(initial_h, count, 1), np.split(initial_c, count, 1), strict=True)
    runs = [_run(x, *start, side, names, None if clip is None else float(clip))
            for start, side in zip(starts, sides, strict=True)]
    made = [states if i == 0 or not output_sequence else states[::-1] for i, (states, _) in enumerate(runs)]
    sequence = np.concatenate([recurrent.order_made(states, not output_sequence) for states in made], 2)
    last = np.concatenate([states[-1] for states, _ in runs], 1)
    return tuple(a.astype(x.dtype) for a in (sequence, last, np.concatenate([cell for _, cell in runs], 1)))


def _sides(weights: Mapping[str, np.ndarray | None], direction: str) -> list[Side]:
    suffixes = ("", "_back") if direction == "bidirectional" else ("",)
    sides = []
    for suffix in suffixes:
        inputs, hidden, bias, peephole = (weights[f"{name}{suffix}"] for name in SIDE)
        assert inputs is not None, "checked when the node was made"
        assert hidden is not None, "checked when the node was made"
        sides.append(Side(inputs, hidden, bias, peephole, suffix == "_back" or direction == "reverse"))
    return sides


def _run(x: np.ndarray, state: np.ndarray, cell: np.ndarray, side: Side, names: tuple[str, ...],
         clip: float | None) -> tuple[list[np.ndarray], np.ndarray]:
    """States in the order they are made, and the last cell."""
    gate, into, out = (recurrent.ACTIVATIONS[name] for name in names)
    look = side.peepholes or [np.zeros(1)] * 3
    states = []
    for step in recurrent.forward(len(x), side.backwards):
        total = x[step].astype(np.float64) @ side.inputs.T + state @ side.hidden.T
        i, f, o, z = np.split(total + (0 if side.bias is None else side.bias), 4, axis=1)
        cell = gate(f + look[1] * cell) * cell + gate(i + look[0] * cell) * into(z)
        cell = cell if clip is None else np.clip(cell, -clip, clip)
        state = gate(o + look[2] * cell) * out(cell)
        states.append(state)
    return states, cell


def _lower(node: Node, lowering: Lowering) -> None:
    """Nine engine operations per step and direction, or four (see lstm_steps)."""
    arguments = Arguments("lstm", PARAMETERS, node.operands)
    x = lowering.read(node["x"])
    known = {name: recurrent.array(arguments, name) for name in (*SIDE, *(f"{name}_back" for name in SIDE))}
    sides = _sides(known, recurrent.direction(arguments, recurrent.DIRECTIONS))
    steps, batch, hidden = x.shape[0], x.shape[1], sides[0].hidden.shape[1]
    ends: list[tuple[Tensor, Tensor]] = []
    sequences = []
    for number, side in enumerate(sides):
        starts = [recurrent.turned(lowering, lowering.part(lowering.read(node[name]), 1, number * hidden, hidden))
                  for name in ("initial_h", "initial_c")]
        start = starts[0], starts[1]
        if _in_few_tasks(lowering, arguments, x, side, number == 1):
            weights = side.inputs, side.hidden
            sequence, *end = lstm_steps.unrolled(lowering, x, start, weights, side.bias, side.backwards)
            ends.append((end[0], end[1]))
        else:
            sequence = lowering.scratch((steps, batch, hidden), (0, 2, 1))
            ends.append(_unrolled(lowering, arguments, x, sequence, start, side, number == 1))
        sequences.append(sequence)
    recurrent.settle_all(lowering, node, sequences, [[state for state, _ in ends], [cell for _, cell in ends]])


def _in_few_tasks(lowering: Lowering, arguments: Arguments, x: Tensor, side: Side, in_place: bool) -> bool:
    """Whether a direction takes four tasks a step: it writes each state where its step is."""
    names = tuple(str(arguments.constant(name)) for name in FUNCTIONS)
    plain = side.peephole is None and not arguments.given("clip") and (in_place or not side.backwards)
    return lstm_steps.fits(lowering, x, side.hidden.shape[1], names, plain)


def _unrolled(lowering: Lowering, arguments: Arguments, x: Tensor, sequence: Tensor, start: tuple[Tensor, Tensor],
              side: Side, in_place: bool) -> tuple[Tensor, Tensor]:
    """Writes the states of one direction; with `in_place` each where its step is, else in the order they are made.
    Returns the last state and cell."""
    names = tuple(str(arguments.constant(name)) for name in FUNCTIONS)
    clip = arguments.number("clip") if arguments.given("clip") else None
    inputs = recurrent.projections(lowering, x, side.inputs, side.bias)
    state, cell = start
    for made, step in enumerate(recurrent.forward(x.shape[0], side.backwards)):
        before, state = state, recurrent.at(sequence, step if in_place else made)
        cell = _step(lowering, state, before, cell, recurrent.at(inputs, step), side, names, clip)
    return state, cell


def _step(lowering: Lowering, target: Tensor, state: Tensor, cell: Tensor, inputs: Tensor, side: Side,
          names: tuple[str, ...], clip: float | None) -> Tensor:
    """Writes the new state to `target` and returns the new cell."""
    batch, hidden = state.shape
    total, kept, added = (recurrent.column(lowering, batch, n * hidden) for n in (4, 1, 1))
    lowering.elementwise(total, recurrent.product(lowering, state, side.hidden), inputs)
    look = side.peepholes
    if look is not None:
        early = _seen(lowering, total.part(1, 0, 2 * hidden), cell, look[:2])
        gates = recurrent.activated(lowering, early, names[0])
    else:
        gates = recurrent.activated(lowering, total.part(1, 0, 3 * hidden), names[0])
    into = recurrent.activated(lowering, total.part(1, 3 * hidden, hidden), names[1])
    lowering.elementwise(kept, gates.part(1, hidden, hidden), cell, Binary.MULTIPLY)
    lowering.elementwise(added, gates.part(1, 0, hidden), into, Binary.MULTIPLY)
    new = recurrent.column(lowering, batch, hidden)
    lowering.elementwise(new, kept, added)
    new = new if clip is None else _clipped(lowering, new, clip)
    if look is not None:
        late = _seen(lowering, total.part(1, 2 * hidden, hidden), new, look[2:])
        last = recurrent.activated(lowering, late, names[0])
    else:
        last = gates.part(1, 2 * hidden, hidden)
    lowering.elementwise(target, last, recurrent.activated(lowering, new, names[2]), Binary.MULTIPLY)
    return new


def _seen(lowering: Lowering, gates: Tensor, cell: Tensor, peepholes: list[np.ndarray]) -> Tensor:
    """gates plus the cell times each peephole vector, side by side."""
    batch, hidden = cell.shape
    weighted, total = (recurrent.column(lowering, *gates.shape) for _ in range(2))
    for number, vector in enumerate(peepholes):
        part = weighted.part(1, number * hidden, hidden)
        lowering.gain_offset(part, cell, 1, np.zeros(hidden), vector.astype(np.float64))
    lowering.elementwise(total, gates, weighted)
    return total


def _clipped(lowering: Lowering, cell: Tensor, bound: float) -> Tensor:
    target = recurrent.column(lowering, *cell.shape)
    lowering.copy(cell, target, Post(activation=Activation.TABLE), tables.clip(half(-bound), half(bound)))
    return target


def _expand(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    arguments = Arguments("lstm", PARAMETERS, node.operands)
    stated = recurrent.direction(arguments, recurrent.DIRECTIONS)
    suffixes = ("", "_back") if stated == "bidirectional" else ("",)
    starts = [unrolled.apart(rewriter, node[name], 1, len(suffixes)) for name in ("initial_h", "initial_c")]
    sequences, ends = [], []
    for number, suffix in enumerate(suffixes):
        start = (starts[0][number], starts[1][number])
        states, cell = _unrolled_graph(rewriter, node, suffix, start, bool(suffix) or stated == "reverse")
        sequences.append(states[::-1] if suffix else states)
        ends.append((states[-1], cell))
    return unrolled.settled(rewriter, node, sequences, [[end[i] for end in ends] for i in (0, 1)])


def _unrolled_graph(rewriter: Rewriter, node: Node, suffix: str, start: tuple[Value, Value],
                    backwards: bool) -> tuple[list[Value], Value]:
    """The states of one direction in the order they are made, and the last cell."""
    inputs = unrolled.inputs_of_steps(rewriter, node["x"], node[f"weight_ih{suffix}"], node.get(f"bias{suffix}"))
    peephole = node.get(f"peephole{suffix}")
    look = [] if peephole is None else unrolled.apart(rewriter, peephole, 0, 3)
    (state, cell), states = start, []
    for step in recurrent.forward(len(inputs), backwards):
        product = unrolled.through(rewriter, state, node[f"weight_hh{suffix}"])
        state, cell = _next(rewriter, node, rewriter.single("add", x=product, y=inputs[step]), cell, look)
        states.append(state)
    return states, cell


def _next(rewriter: Rewriter, node: Node, total: Value, cell: Value, look: Sequence[Value]) -> tuple[Value, Value]:
    """The new state and cell from the sums of the gates."""
    arguments = Arguments("lstm", PARAMETERS, node.operands)
    gate, into, out = (str(arguments.constant(name)) for name in FUNCTIONS)

    def opened(part: Value, number: int, seen: Value) -> Value:
        if look:
            part = rewriter.single("add", x=part, y=rewriter.single("mul", x=seen, y=look[number]))
        return unrolled.activated(rewriter, gate, part)

    i, f, o, z = unrolled.apart(rewriter, total, 1, 4)
    kept = rewriter.single("mul", x=opened(f, 1, cell), y=cell)
    added = rewriter.single("mul", x=opened(i, 0, cell), y=unrolled.activated(rewriter, into, z))
    cell = rewriter.single("add", x=kept, y=added)
    if arguments.given("clip"):
        bound = arguments.number("clip")
        cell = rewriter.single("clip", x=cell, alpha=-bound, beta=bound)
    return rewriter.single("mul", x=opened(o, 2, cell), y=unrolled.activated(rewriter, out, cell)), cell


OPS = (Op("lstm", PARAMETERS, _infer, _reference, rules=(*ENGINE, recurrent.few_steps), lower=_lower, expand=_expand,
          channels_of=recurrent.CHANNELS),)
