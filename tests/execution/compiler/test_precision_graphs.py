"""precision="safe" on random graphs of linear and other operations whose numbers are anywhere between 1e-7 and 1e9:
they err as the same graph does whose numbers are in range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.tied_graphs import TiedGraph, costs_no_digits

from openane.graph import Graph, Value

ROWS, WIDTH = 6, 32
TABLES = ("sigmoid", "tanh", "silu", "exp", "gelu", "clip")
SETTINGS = {"gelu": {"mode": "EXACT"}, "clip": {"alpha": -0.5, "beta": 0.7}}


class RandomGraph(TiedGraph):
    """Rows of numbers."""

    def __init__(self, seed: int, beyond: bool) -> None:
        super().__init__(seed, beyond, (ROWS, WIDTH))

    def made(self) -> Graph:
        """The graph."""
        kinds: dict[str, Callable[[int], Value]] = {
            "linear": lambda t: self.to(self.linear(self.value, t), t), "relu": lambda t: self.tied("relu"),
            "add": lambda t: self.both("add"), "maximum": lambda t: self.both("maximum"), "norm": self.norm,
            "root mean square": self.norm, "softmax": lambda t: self.plain("softmax", axis=-1), "product": self.product,
            "square": lambda t: self.power("square", 2), "root": lambda t: self.root(), "quotient": self.quotient,
            "attention": self.attention, "logarithm": lambda t: self.logarithm(), "concat": lambda t: self.joined(),
            **{name: lambda t, name=name: self.plain(name, **SETTINGS.get(name, {})) for name in TABLES}}
        for _ in range(self.rng.integers(4, 9)):
            name = str(self.rng.choice(list(kinds)))
            self.value = kinds[name](self.exponent())
        return self.builder.finish({"y": self.to(self.linear(self.to(self.value, 0), 0), 0)})

    def linear(self, value: Value, exponent: float) -> Value:
        """A layer whose weights bring the result as far towards the exponent as they hold."""
        return self.weighted("linear", value, exponent, (WIDTH, WIDTH), WIDTH)

    def tied(self, name: str) -> Value:
        return self.add(name, self.of[id(self.value)], x=self.value)

    def both(self, name: str) -> Value:
        exponent = self.of[id(self.value)]
        return self.add(name, exponent, x=self.value, y=self.to(self.linear(self.value, exponent), exponent))

    def plain(self, name: str, **settings: float | str | int) -> Value:
        return self.add(name, 0, x=self.to(self.linear(self.value, 0), 0), **settings)

    def norm(self, exponent: int) -> Value:
        exponent = min(max(exponent, -2), 14)  # epsilon is a number of fp16
        x = self.to(self.linear(self.value, exponent), exponent)
        name = "layer_norm" if self.rng.integers(2) else "rms_norm"
        return self.add(name, 0, x=x, axes=[-1], epsilon=1e-5 * 4.0 ** self.of[id(x)])

    def product(self, exponent: int) -> Value:
        other = -self.of[id(self.value)] // 2
        y = self.to(self.linear(self.value, other), other)
        return self.add("mul", self.of[id(self.value)] + self.of[id(y)], x=self.value, y=y)

    def power(self, name: str, degree: float) -> Value:
        return self.add(name, degree * self.of[id(self.value)], x=self.value)

    def magnitude(self, value: Value) -> Value:
        """Its absolute value plus the largest of its row: above 0."""
        size = self.add("abs", self.of[id(value)], x=value)
        largest = self.add("reduce_max", self.of[id(value)], x=size, axes=[-1], keep_dims=True)
        return self.add("add", self.of[id(value)], x=size, y=largest)

    def root(self) -> Value:
        size = self.add("abs", self.of[id(self.value)], x=self.value)
        return self.add("sqrt", self.of[id(self.value)] / 2, x=size)

    def quotient(self, exponent: int) -> Value:
        here = self.of[id(self.value)]
        y = self.magnitude(self.to(self.linear(self.value, here), here))
        return self.add("real_div", here - self.of[id(y)], x=self.value, y=y)

    def logarithm(self) -> Value:
        return self.add("log", 0, x=self.to(self.magnitude(self.value), 0), epsilon=0.0)

    def joined(self) -> Value:
        here = self.of[id(self.value)]
        both = self.add("concat", here, values=(self.value, self.add("mul", here, x=self.value, y=0.5)), axis=1)
        weight = np.random.default_rng(self.seed).standard_normal((WIDTH, 2 * WIDTH)) / 8
        return self.add("linear", here, x=both, weight=weight.astype(np.float16))

    def attention(self, exponent: int) -> Value:
        query, key = (self.to(self.linear(self.value, e), e) for e in (exponent, -exponent))
        scores = self.add("matmul", 0, x=query, y=key, transpose_y=True)
        shares = self.add("softmax", 0, x=self.add("mul", 0, x=scores, y=WIDTH ** -0.5), axis=-1)
        value = self.linear(self.value, exponent)
        return self.add("matmul", self.of[id(value)], x=shares, y=value)


@pytest.mark.parametrize("seed", [*range(40), 115, 160, 391, 448, 607, 692, 805])
def test_numbers_beyond_the_range_cost_no_digits(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float16)
    assert costs_no_digits(RandomGraph(seed, True).made(), RandomGraph(seed, False).made(), x)
