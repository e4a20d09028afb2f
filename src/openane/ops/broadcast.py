"""Numpy-style broadcasting of shapes."""

from __future__ import annotations

from collections.abc import Sequence

from openane.ops.operands import refusal


def broadcast_shape(op: str, operand: str, first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The shape two operands give when aligned at their last dimensions, extent 1 repeating. GraphError names
    `operand`, the second one, when a dimension fits neither way."""
    rank = max(len(first), len(second))
    left = (1,) * (rank - len(first)) + tuple(first)
    right = (1,) * (rank - len(second)) + tuple(second)
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        if a != b and 1 not in (a, b):
            raise refusal(op, operand, f"must broadcast against {list(first)}: dimension {i - rank} must be {a} or 1",
                          f"{b} in {list(second)}")
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
