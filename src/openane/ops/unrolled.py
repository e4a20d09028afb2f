"""lstm, gru and rnn step by step as operations of their own: the form they are differentiated in, and run in when their
weights are no constants. The inputs of all steps meet their weights in one product, as in their lowering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openane.graph import Node, Value
from openane.ops.operands import Arguments
from openane.ops.recurrent import OPTIONS
from openane.ops.rewriter import Rewriter

KNOWN = {"hard_sigmoid": "sigmoid_hard", "scaled_tanh": "tanh"}
"""Activations of cells that MIL calls otherwise on their own."""


def inputs_of_steps(rewriter: Rewriter, x: Value, weight: Value, bias: Value | None) -> list[Value]:
    """What x [s, b, I] adds to the gates [b, gates] of every step."""
    made = rewriter.single("matmul", x=x, y=weight, transpose_y=True)
    if bias is not None:
        made = rewriter.single("add", x=made, y=bias)
    return [rewriter.single("reshape", x=part, shape=list(made.shape[1:])) for part in
            apart(rewriter, made, 0, x.shape[0])]


def apart(rewriter: Rewriter, value: Value, axis: int, count: int) -> list[Value]:
    """The value cut into `count` equal parts along an axis."""
    made = (value,) if count == 1 else rewriter.add("split", x=value, axis=axis, num_splits=count)
    return list(made) if isinstance(made, tuple) else [made]


def through(rewriter: Rewriter, state: Value, weight: Value) -> Value:
    """state [b, H] @ weight [gates, H]^T."""
    return rewriter.single("matmul", x=state, y=weight, transpose_y=True)


def activated(rewriter: Rewriter, name: str, value: Value) -> Value:
    """The activation called `name`."""
    if name == "linear":
        return value
    function = KNOWN.get(name, name)
    settings: dict[str, Any] = {"alpha": 0.2, "beta": 0.5} if function == "sigmoid_hard" else {}
    return rewriter.single(function, x=value, **settings)


def settled(rewriter: Rewriter, node: Node, sequences: Sequence[Sequence[Value]],
            last: Sequence[Sequence[Value]]) -> tuple[Value, ...]:
    """The results: states of each direction in the order they come out, and final states, each once per direction."""
    whole = Arguments(node.op, OPTIONS, node.operands).flag("output_sequence")
    ends = [_joined(rewriter, states, 1) for states in last]
    if whole:
        stacks = [rewriter.single("stack", values=tuple(states), axis=0) for states in sequences]
        return _joined(rewriter, stacks, 2), *ends
    return rewriter.single("expand_dims", x=ends[0], axes=[0]), *ends


def _joined(rewriter: Rewriter, parts: Sequence[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else rewriter.single("concat", values=tuple(parts), axis=axis)
