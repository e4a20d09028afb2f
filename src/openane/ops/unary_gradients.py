"""Derivatives of the functions of elementwise_unary.

Each is written from the result y where that says as much as x, and so that nothing overflows fp16 before the derivative
has become 0. At corners relu, relu6 and leaky_relu take the flatter slope, as PyTorch does. At its bounds clip takes
the slope inside, 1: what lies on a bound (weights that were clipped, say) can then come back, and one comparison of x
and y says where. PyTorch took 1 there for long and takes 0 in 2.15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from openane.graph import Node, Operand, Value
from openane.ops.gradients import Backward, number, only, product, stopped
from openane.ops.operands import Arguments
from openane.ops.spec import Gradient, Parameter, Upstream

FLAT = frozenset({"ceil", "floor", "round", "sign"})
"""Functions that are constant between their steps."""
SATURATED = 6.0
"""Beyond it the derivative of every gelu is 0 or 1 in fp16, and polynomials of it stay far below 65504."""

Settings = Mapping[str, Any]


class _Terms:
    """Arithmetic in the words of the formulas: every method is one operation on the engine."""

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


Slope = Callable[[_Terms, Value, Value, Settings], Value]
"""The derivative from (terms, x, y, settings)."""


def _gelu(t: _Terms, x: Value, y: Value, s: Settings) -> Value:
    """Phi + x * Phi', Phi the cumulative of the mode."""
    x = t.of("clip", x, alpha=-SATURATED, beta=SATURATED)
    if s["mode"] == "EXACT":
        cumulative = t.line(t.of("erf", t.line(x, math.sqrt(0.5), 0.0)), 0.5, 0.5)
        bell = t.of("exp", t.line(t.of("square", x), -0.5, 0.0))
        return t.plus(cumulative, t.line(t.times(x, bell), 1 / math.sqrt(2 * math.pi), 0.0))
    if s["mode"] == "SIGMOID_APPROXIMATION":
        half = t.of("sigmoid", t.line(x, 1.702, 0.0))
        rest = t.times(half, t.line(half, -1.0, 1.0))
        return t.plus(half, t.line(t.times(x, rest), 1.702, 0.0))
    scale, cubic, square = math.sqrt(2 / math.pi), 0.044715, t.of("square", x)
    bend = t.of("tanh", t.times(x, t.line(square, scale * cubic, scale)))
    steep = t.times(t.line(t.of("square", bend), -0.5, 0.5), t.times(x, t.line(square, 3 * scale * cubic, scale)))
    return t.plus(t.line(bend, 0.5, 0.5), steep)


def _silu(t: _Terms, x: Value, y: Value, s: Settings) -> Value:
    """s + y * (1 - s)."""
    half = t.of("sigmoid", x)
    return t.plus(half, t.times(y, t.line(half, -1.0, 1.0)))


def _elu(t: _Terms, x: Value, y: Value, s: Settings) -> Value:
    """1 above 0, y + alpha below."""
    below = t.line(t.of("clip", y, alpha=-math.inf, beta=0.0), 1.0, s["alpha"])
    if s["alpha"] == 1:
        return below
    return t.plus(below, t.line(t.where("greater", x, 0.0), 1 - s["alpha"], 0.0))


def _scaled_tanh(t: _Terms, x: Value, y: Value, s: Settings) -> Value:
    bend = t.of("tanh", t.line(x, s["beta"], 0.0))
    return t.line(t.of("square", bend), -s["alpha"] * s["beta"], s["alpha"] * s["beta"])


def _between(t: _Terms, y: Value, low: float, high: float, slope: float = 1.0) -> Value:
    """`slope` where low < y < high, else 0."""
    inside = t.times(t.where("greater", y, low), t.where("less", y, high))
    return inside if slope == 1 else t.line(inside, slope, 0.0)


def _root(t: _Terms, x: Value) -> Value:
    """1 / sqrt(1 - x^2)."""
    return t.of("rsqrt", t.line(t.of("square", x), -1.0, 1.0))


SLOPES: Mapping[str, Slope] = {
    "abs": lambda t, x, y, s: t.of("sign", x),
    "acos": lambda t, x, y, s: t.line(_root(t, x), -1.0, 0.0),
    "asin": lambda t, x, y, s: _root(t, x),
    "atan": lambda t, x, y, s: t.of("inverse", t.line(t.of("square", x), 1.0, 1.0), epsilon=0.0),
    "atanh": lambda t, x, y, s: t.of("inverse", t.line(t.of("square", x), -1.0, 1.0), epsilon=0.0),
    "clamped_relu": lambda t, x, y, s: t.times(t.choice("greater_equal", x, 0.0, 1.0, s["alpha"]),
                                               t.where("less", y, s["beta"])),
    "clip": lambda t, x, y, s: t.where("equal", x, y),
    "cos": lambda t, x, y, s: t.line(t.of("sin", x), -1.0, 0.0),
    "cosh": lambda t, x, y, s: t.of("sinh", x),
    "elu": _elu,
    "erf": lambda t, x, y, s: t.line(t.of("exp", t.line(t.of("square", x), -1.0, 0.0)), 2 / math.sqrt(math.pi), 0.0),
    "exp": lambda t, x, y, s: y,
    "exp2": lambda t, x, y, s: t.line(y, math.log(2), 0.0),
    "gelu": _gelu,
    "inverse": lambda t, x, y, s: t.line(t.of("square", y), -1.0, 0.0),
    "leaky_relu": lambda t, x, y, s: t.choice("greater", x, 0.0, 1.0, s["alpha"]),
    "log": lambda t, x, y, s: t.of("inverse", x, epsilon=s["epsilon"]),
    "relu": lambda t, x, y, s: t.of("sign", y),
    "relu6": lambda t, x, y, s: _between(t, y, 0.0, 6.0),
    "rsqrt": lambda t, x, y, s: t.times(t.of("square", y), t.line(y, -0.5, 0.0)),
    "scaled_tanh": _scaled_tanh,
    "sigmoid": lambda t, x, y, s: t.times(y, t.line(y, -1.0, 1.0)),
    "sigmoid_hard": lambda t, x, y, s: _between(t, y, 0.0, 1.0, s["alpha"]),
    "silu": _silu,
    "sin": lambda t, x, y, s: t.of("cos", x),
    "sinh": lambda t, x, y, s: t.of("cosh", x),
    "softplus": lambda t, x, y, s: t.of("sigmoid", x),
    "softsign": lambda t, x, y, s: t.of("square", t.line(t.of("abs", y), -1.0, 1.0)),
    "sqrt": lambda t, x, y, s: t.of("inverse", t.line(y, 2.0, 0.0), epsilon=0.0),
    "square": lambda t, x, y, s: t.line(x, 2.0, 0.0),
    "tan": lambda t, x, y, s: t.line(t.of("square", y), 1.0, 1.0),
    "tanh": lambda t, x, y, s: t.line(t.of("square", y), -1.0, 1.0),
    "threshold": lambda t, x, y, s: t.where("greater", x, s["alpha"]),
    "thresholded_relu": lambda t, x, y, s: t.where("greater_equal", x, s["alpha"]),
}


def unary_gradient(name: str, parameters: tuple[Parameter, ...]) -> Gradient | None:
    """The rule of function `name`: upstream times the derivative. None when there is none."""
    if name in FLAT:
        return stopped

    def rule(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
        arguments = Arguments(name, parameters, node.operands)
        settings = {p.name: arguments.constant(p.name) if p.kind == "string" else arguments.number(p.name)
                    for p in parameters[1:]}
        if name == "linear_activation":
            return {"x": product(backward, only(upstream), arguments.number("alpha"))}
        slope = SLOPES[name](_Terms(backward), node["x"], node.output, settings)
        return {"x": product(backward, only(upstream), slope)}

    return rule if name in SLOPES or name == "linear_activation" else None
