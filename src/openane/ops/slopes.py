"""What derivatives of functions of one tensor are written in.

Each is written from the result y where that says as much as x, and so that nothing overflows fp16 before the derivative
has become 0. At corners relu, relu6 and leaky_relu take the flatter slope, as PyTorch does. At its bounds clip takes
the slope inside, 1: what lies on a bound (weights that were clipped, say) can then come back, and one comparison of x
and y says where. PyTorch took 1 there for long and takes 0 in 2.15.
"""

from __future__ import annotations

from typing import Any

from openane.graph import Value
from openane.ops.gradients import Backward, number, product


class Terms:
    """Arithmetic in the words of the formulas: every method is one operation on the engine, but for those made of
    several."""

    def __init__(self, backward: Backward) -> None:
        self.add_node = backward.single
        self.backward = backward

    def of(self, function: str, x: Value, **settings: Any) -> Value:
        """function(x)."""
        return self.add_node(function, x=x, **settings)

    def line(self, x: Value, alpha: float, beta: float) -> Value:
        """alpha * x + beta."""
        return self.add_node("linear_activation", x=x, alpha=alpha, beta=beta)

    def times(self, x: Value, y: Value) -> Value:
        """x * y."""
        return product(self.backward, x, y)

    def plus(self, x: Value, y: Value) -> Value:
        """x + y."""
        return self.add_node("add", x=x, y=y)

    def where(self, comparison: str, x: Value, y: Value | float) -> Value:
        """1 where the comparison holds, else 0."""
        return number(self.backward, self.add_node(comparison, x=x, y=y), x.dtype)

    def choice(self, comparison: str, x: Value, y: float, yes: float, no: float) -> Value:
        """One of two numbers, in x's element type."""
        return self.line(self.where(comparison, x, y), yes - no, no)

    def between(self, y: Value, low: float, high: float, slope: float = 1.0) -> Value:
        """`slope` where low < y < high, else 0."""
        inside = self.times(self.where("greater", y, low), self.where("less", y, high))
        return inside if slope == 1 else self.line(inside, slope, 0.0)
