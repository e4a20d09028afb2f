"""A step of an lstm in five tasks: the product of the state with all gates' weights, the sum with what the input brings
with tanh behind it, the new cell, its tanh, and the new state.

A sigmoid is (1 + tanh(x / 2)) / 2: its rows have half the weights, and halves are left to the sums. With t of the gates
i, f and o

    c = (1 * c + t_f * c + 1 * z + t_i * z) / 2        h = (1 * tanh(c) + t_o * tanh(c)) / 2

are reductions of products of two operands, which are not rounded before they are added (inferred: reductions seen have
one operand, or the square of a difference).
"""

from __future__ import annotations

import numpy as np

from openane.engine import Binary, Reduction
from openane.ops import recurrent
from openane.ops.lowering import ELEMENT, Lowering, Tensor
from openane.record_classes import dataclass

CELL, ONES, GATES, INTO, OUT, ROWS = 0, 1, 3, 5, 6, 7
"""Where the cell, two rows of ones, the gates f and i, z, and the gate o lie, in rows of hidden features; all rows."""
ORDER, FACTORS = (1, 0, 3, 2), (0.5, 0.5, 1.0, 0.5)
"""The gates f, i, z, o in weights that have them as i, f, o, z, and what their weights are multiplied by."""
NAMES = ("sigmoid", "tanh", "tanh")


@dataclass(frozen=True, slots=True)
class _Step:
    """Storage of one step: rows of `hidden` elements, one behind the other in L2."""

    rows: Tensor
    hidden: int

    def row(self, first: int, count: int = 1) -> Tensor:
        """Some rows as one vector."""
        return self.rows.part(0, first * self.hidden, count * self.hidden)

    def grid(self, first: int, outer: int, inner: int) -> Tensor:
        """[hidden, 2, 2] from a row on: `outer` and `inner` rows on for the other of each two; 0 repeats."""
        base, row = self.row(first), self.hidden * ELEMENT
        return base.seen(base.offset, (self.hidden, 2, 2), (ELEMENT, outer * row, inner * row))


def fits(lowering: Lowering, x: Tensor, hidden: int, names: tuple[str, ...], plain: bool) -> bool:
    """Whether a direction can be computed so: one sequence, the usual activations, nothing beside weights and biases
    (`plain`), from level 1 on."""
    limits = lowering.limits
    return bool(lowering.level) and x.shape[1] == 1 and names == NAMES and plain and hidden > 1 \
        and hidden * ELEMENT % limits.l2_alignment == 0 and 4 * hidden <= min(limits.channels, limits.width)


def unrolled(lowering: Lowering, x: Tensor, start: tuple[Tensor, Tensor], weights: tuple[np.ndarray, np.ndarray],
             bias: np.ndarray | None, backwards: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The states [s, 1, H] of x [s, 1, I], each where its step is, the last of them, and the last cell."""
    steps, hidden = x.shape[0], weights[1].shape[1]
    inputs, state = (_gates(matrix).T for matrix in weights)
    states = lowering.scratch((steps + 1, 1, hidden), (0, 2, 1))
    pairs = lowering.scratch((steps, 2, 4 * hidden))
    brought = pairs.part(1, 1, 1)
    lowering.product(_matrix(brought, steps), _matrix(x, steps), inputs, None if bias is None else _gates(bias))
    every = [_Step(lowering.near((ROWS * hidden,), 0), hidden) for _ in range(2)]
    for each in every:
        lowering.copy(lowering.constant(np.ones(2 * hidden, np.float16)), each.row(ONES, 2))
    lowering.copy(start[0], recurrent.at(states, steps if backwards else 0))
    lowering.copy(_vector(start[1]), every[0].row(CELL))
    last = states
    for number, step in enumerate(recurrent.forward(steps, backwards)):
        read, written = (step + 1, step) if backwards else (step, step + 1)
        last = recurrent.at(states, written)
        _step(lowering, (recurrent.at(states, read), last), recurrent.at(pairs, step),
              (every[number % 2], every[(number + 1) % 2]), state)
    cell = every[steps % 2].row(CELL)
    return states.part(0, int(not backwards), steps), last, cell.seen(cell.offset, (1, hidden), (0, ELEMENT))


def _gates(weights: np.ndarray) -> np.ndarray:
    """Weights or biases of all gates in the order and size the steps have them."""
    parts = np.split(weights.astype(np.float32), 4)
    return np.concatenate([parts[gate] * factor for gate, factor in zip(ORDER, FACTORS, strict=True)])


def _matrix(tensor: Tensor, rows: int) -> Tensor:
    """[s, 1, n] as [s, n]."""
    return tensor.seen(tensor.offset, (rows, tensor.shape[2]), (tensor.strides[0], tensor.strides[2]))


def _vector(tensor: Tensor) -> Tensor:
    """[1, n] as [n]."""
    return tensor.seen(tensor.offset, tensor.shape[1:], tensor.strides[1:])


def _step(lowering: Lowering, states: tuple[Tensor, Tensor], pair: Tensor, every: tuple[_Step, _Step],
          weights: np.ndarray) -> None:
    """From one state [1, H] to the next, and from the cell of one storage to that of the other; `pair` is [2, 4 * H],
    of which the second row is what the input brings."""
    now, then = every
    found = recurrent.stage(lowering, "tanh")
    assert found is not None, "tanh is a post stage"
    lowering.product(pair.part(0, 0, 1), states[0], weights, None)
    gates = now.row(GATES, 4)
    gates = gates.seen(gates.offset, (1, *gates.shape), (0, *gates.strides))
    assert found[1] is not None, "tanh is a table"
    if not lowering.sum_planes(gates, pair, 0, found[1]):
        lowering.elementwise(gates, pair.part(0, 0, 1), pair.part(0, 1, 1))
        lowering.copy(gates, gates, *found)
    _summed(lowering, then.row(CELL), now.grid(ONES, 1, 2), now.grid(CELL, INTO - CELL, 0))
    squashed = _Step(lowering.near((now.hidden,), 0), now.hidden)
    lowering.copy(then.row(CELL), squashed.rows, *found)
    operands = (grid.part(2, 0, 1) for grid in (now.grid(ONES, OUT - ONES, 0), squashed.grid(0, 0, 0)))
    _summed(lowering, _vector(states[1]), *operands)


def _summed(lowering: Lowering, target: Tensor, first: Tensor, second: Tensor) -> None:
    """Half the sum of the products of two grids, for each of their channels."""
    operands = (lowering.access(grid, (None, 0, 1, 2, None)) for grid in (first, second))
    lowering.emit(Reduction(first=next(operands), second=next(operands), function=Binary.MULTIPLY, final_scale=0.5,
                            result=lowering.access(target, (None, 0, None, None, None))))
