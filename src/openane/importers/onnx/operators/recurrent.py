"""ONNX LSTM, GRU and RNN, taken apart into steps: products with the weights, gates, and the new states.

The inputs' product with the weights is made for all steps at once. Weights may be constants or computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Result
from openane.record_classes import dataclass

MOST_STEPS = 1024
"""Longest sequence: a step is some 16 nodes and 20 tasks, so that a layer of so many is compiled in half a minute."""
DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FUNCTIONS: Mapping[str, tuple[str, Mapping[str, float]]] = {
    "Sigmoid": ("sigmoid", {}), "Tanh": ("tanh", {}), "Relu": ("relu", {}), "Softplus": ("softplus", {}),
    "Softsign": ("softsign", {}), "LeakyRelu": ("leaky_relu", {"alpha": 0.01}), "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("sigmoid_hard", {"alpha": 0.2, "beta": 0.5}), "Affine": ("linear_activation",
                                                                           {"alpha": 1.0, "beta": 0.0}),
    "ScaledTanh": ("scaled_tanh", {"alpha": 1.0, "beta": 1.0}),
}


@dataclass(slots=True)
class Cell:
    """One direction of a recurrent node."""

    step: OnnxStep
    number: int
    hidden: int
    functions: Sequence[tuple[str, Mapping[str, float]]]
    recurrent: Value
    states: list[Value] = field(default_factory=list)

    def add(self, op: str, **operands: object) -> Value:
        """A node of the cell."""
        return self.step.add(op, part=f"direction{self.number}", **operands)

    def gate(self, totals: Value, place: int) -> Value:
        """Columns `place` of equal parts of `hidden`."""
        return self.columns(totals, place * self.hidden, (place + 1) * self.hidden)

    def columns(self, value: Value, start: int, end: int) -> Value:
        """Columns of [rows, columns]."""
        if (start, end) == (0, value.shape[1]):
            return value
        return self.add("slice_by_index", x=value, begin=(0, start), end=(value.shape[0], end))

    def activated(self, place: int, value: Value) -> Value:
        """Activation `place` of the cell, its input within `clip`."""
        op, settings = self.functions[place]
        bound = self.step.real_attribute("clip", 0.0)
        if bound:
            value = self.add("clip", x=value, alpha=-bound, beta=bound)
        return self.add(op, x=value, **settings)

    def product(self, state: Value, start: int, end: int) -> Value:
        """state [b, H] times rows start..end of the recurrent weights [gates, H]."""
        weights = self.recurrent
        if (start, end) != (0, weights.shape[0]):
            weights = self.add("slice_by_index", x=weights, begin=(start, 0), end=(end, weights.shape[1]))
        return self.add("matmul", x=state, y=weights, transpose_y=True)


def _lstm(cell: Cell, inputs: Value, states: Sequence[Value]) -> list[Value]:
    """Gates i, o, f, c; peepholes i, o, f."""
    state, memory = states
    totals = cell.add("add", x=inputs, y=cell.product(state, 0, 4 * cell.hidden))
    into, out, keep, new = (cell.gate(totals, place) for place in range(4))
    holes = _peepholes(cell)
    if holes is not None:
        into, keep = (cell.add("add", x=gate, y=cell.add("mul", x=memory, y=cell.gate(holes, place)))
                      for gate, place in ((into, 0), (keep, 2)))
    keep = cell.activated(0, keep)
    if cell.step.integer("input_forget", 0):
        entering = cell.add("sub", x=np.float16(1), y=keep)
    else:
        entering = cell.activated(0, into)
    memory = cell.add("add", x=cell.add("mul", x=keep, y=memory),
                      y=cell.add("mul", x=entering, y=cell.activated(1, new)))
    if holes is not None:
        out = cell.add("add", x=out, y=cell.add("mul", x=memory, y=cell.gate(holes, 1)))
    return [cell.add("mul", x=cell.activated(0, out), y=cell.activated(2, memory)), memory]


def _peepholes(cell: Cell) -> Value | None:
    """Rows [1, 3 * H] of this direction."""
    return _direction(cell.step, cell.step.real(7), cell.number, keep=True) if cell.step.has(7) else None


def _gru(cell: Cell, inputs: Value, states: Sequence[Value]) -> list[Value]:
    """Gates z, r, h; h's recurrent bias lies inside the reset where linear_before_reset says so."""
    state, size = states[0], cell.hidden
    gates = cell.add("add", x=cell.columns(inputs, 0, 2 * size), y=cell.product(state, 0, 2 * size))
    update, reset = (cell.activated(0, cell.gate(gates, place)) for place in range(2))
    new = cell.columns(inputs, 2 * size, 3 * size)
    if cell.step.integer("linear_before_reset", 0):
        inner = cell.product(state, 2 * size, 3 * size)
        if cell.step.has(3):
            bias = _direction(cell.step, cell.step.real(3), cell.number, keep=True)
            inner = cell.add("add", x=inner, y=cell.columns(bias, 5 * size, 6 * size))
        total = cell.add("add", x=new, y=cell.add("mul", x=reset, y=inner))
    else:
        total = cell.add("add", x=new, y=cell.product(cell.add("mul", x=reset, y=state), 2 * size, 3 * size))
    fresh = cell.activated(1, total)
    change = cell.add("mul", x=update, y=cell.add("sub", x=state, y=fresh))
    return [cell.add("add", x=fresh, y=change)]


def _rnn(cell: Cell, inputs: Value, states: Sequence[Value]) -> list[Value]:
    total = cell.add("add", x=inputs, y=cell.product(states[0], 0, cell.hidden))
    return [cell.activated(0, total)]


CELLS: Mapping[str, Callable[[Cell, Value, Sequence[Value]], list[Value]]] = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}


def _direction(step: OnnxStep, value: Value, number: int, *, keep: bool = False) -> Value:
    """Part `number` along the first dimension; `keep` leaves it there with an extent of 1."""
    begin, end = [0] * value.type.rank, list(value.shape)
    begin[0], end[0] = number, number + 1
    part = value if value.shape[0] == 1 else step.add("slice_by_index", part="side", x=value, begin=begin, end=end)
    return part if keep else step.add("reshape", part="side", x=part, shape=value.shape[1:])


def _functions(step: OnnxStep, number: int) -> list[tuple[str, Mapping[str, float]]]:
    """The activations of direction `number` with their settings; alphas and betas are given to those that have them."""
    count = len(DEFAULTS[step.op])
    names = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
             for name in step.attributes.get("activations", ())] or list(DEFAULTS[step.op]) * (number + 1)
    stated = {key: [float(each) for each in step.attributes.get(f"activation_{key}", ())] for key in ("alpha", "beta")}
    found: list[tuple[str, Mapping[str, float]]] = []
    for name in names:
        known = next((key for key in FUNCTIONS if key.lower() == name.lower()), None)
        if known is None:
            raise step.refuse("activations", name, f"one of {', '.join(FUNCTIONS)}")
        op, settings = FUNCTIONS[known]
        found.append((op, {key: stated[key].pop(0) if stated[key] else value for key, value in settings.items()}))
    return found[number * count:(number + 1) * count]


def _inputs(step: OnnxStep, x: Value, number: int, hidden: int) -> Value:
    """[s * b, gates]: x times the input weights, plus every bias that does not lie inside a reset."""
    steps, batch, features = x.shape
    gates = GATES[step.op] * hidden
    rows = step.add("reshape", part="rows", x=x, shape=(steps * batch, features))
    weights = _direction(step, step.real(1), number)
    total = step.add("matmul", part="inputs", x=rows, y=weights, transpose_y=True)
    if not step.has(3):
        return total
    bias = _direction(step, step.real(3), number, keep=True)
    first, second = (step.add("slice_by_index", part="bias", x=bias, begin=(0, start), end=(1, start + gates))
                     for start in (0, gates))
    if step.op == "GRU" and step.integer("linear_before_reset", 0):
        inner = np.ones(gates, np.float16)
        inner[2 * hidden:] = 0
        second = step.add("mul", part="outer", x=second, y=inner[None])
    return step.add("add", part="biased", x=step.add("add", part="biased", x=total, y=first), y=second)


def _start(step: OnnxStep, index: int, number: int, batch: int, hidden: int, turned: bool) -> Value:
    """An initial state [b, H]: input `index`, or zeros."""
    if not step.has(index):
        return step.builder.constant(np.zeros(bounded(step, (batch, hidden)), np.float16), f"{step.name}_zeros")
    value = step.real(index)
    return _direction(step, step.add("transpose", part="start", x=value, perm=(1, 0, 2)) if turned else value, number)


def _recurrent(step: OnnxStep) -> Result:
    """Y [s, directions, b, H], and the last states [directions, b, H]; batch first with layout 1."""
    turned = bool(step.integer("layout", 0))
    x = step.real(0)
    x = step.add("transpose", part="steps", x=x, perm=(1, 0, 2)) if turned else x
    steps, batch = x.shape[0], x.shape[1]
    if steps > MOST_STEPS:
        raise UnsupportedError(step.label, "every step becomes operations of its own", limit=MOST_STEPS, found=steps,
                               remedy="cut the sequence and carry the states over")
    if step.has(4) and any(length != steps for length in step.integers_in(4, "sequence_lens")):
        raise UnsupportedError(step.label, "sequences must all have the full length", limit=steps,
                               found=f"sequence_lens {list(step.integers_in(4, 'sequence_lens'))[:8]}",
                               remedy="batch sequences of one length")
    direction = step.text("direction", "forward")
    sides = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(direction)
    if sides is None:
        raise step.refuse("direction", direction, "one of forward, reverse, bidirectional")
    if len(step.operand(1).shape) != 3 or step.operand(1).shape[0] != len(sides):
        raise GraphError(f"{step.label}: weights must be [{len(sides)}, gates, features], found "
                         f"{list(step.operand(1).shape)}")
    runs = [_run(step, x, number, backwards, turned) for number, backwards in enumerate(sides)]
    return _results(step, runs, steps, batch, turned)


def _run(step: OnnxStep, x: Value, number: int, backwards: bool, turned: bool) -> tuple[list[Value], list[Value]]:
    """The states of one direction in the order of time, and the last of each kind."""
    steps, batch = x.shape[:2]
    hidden = step.operand(2).shape[-1]
    cell = Cell(step, number, hidden, _functions(step, number), _direction(step, step.real(2), number))
    inputs = _inputs(step, x, number, hidden)
    states = [_start(step, index, number, batch, hidden, turned) for index in ((5, 6) if step.op == "LSTM" else (5,))]
    made: list[Value] = []
    for place in range(steps)[::-1] if backwards else range(steps):
        now = inputs if steps == 1 else cell.add("slice_by_index", x=inputs, begin=(place * batch, 0),
                                                 end=((place + 1) * batch, inputs.shape[1]))
        states = CELLS[step.op](cell, now, states)
        made.append(states[0])
    return made[::-1] if backwards else made, states


def _results(step: OnnxStep, runs: Sequence[tuple[list[Value], list[Value]]], steps: int, batch: int,
             turned: bool) -> Result:
    sides, hidden = len(runs), runs[0][1][0].shape[1]
    order = [made[place] for place in range(steps) for made, _ in runs]
    whole = _stacked(step, order, (steps, sides, batch, hidden))
    last = [_stacked(step, [states[kind] for _, states in runs], (sides, batch, hidden))
            for kind in range(len(runs[0][1]))]
    if turned:
        whole = step.add("transpose", x=whole, perm=(2, 0, 1, 3))
        last = [step.add("transpose", part="last", x=value, perm=(1, 0, 2)) for value in last]
    return (whole, *last)


def _stacked(step: OnnxStep, parts: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """[b, H] parts under each other, in `shape`."""
    rows = parts[0] if len(parts) == 1 else step.add("concat", part="states", values=tuple(parts), axis=0)
    return step.add("reshape", x=rows, shape=shape)


OPERATORS: Mapping[str, Handler] = {"GRU": _recurrent, "LSTM": _recurrent, "RNN": _recurrent}
