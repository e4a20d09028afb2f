"""precision="safe" on random graphs of linear and other operations whose numbers are anywhere between 1e-7 and 1e9:
they err as the same graph does whose numbers are in range."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from openane.compiler import Model, compile
from openane.devices import run
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

ROWS, WIDTH = 6, 32
TABLES = ("sigmoid", "tanh", "silu", "exp", "gelu", "clip")
SETTINGS = {"gelu": {"mode": "EXACT"}, "clip": {"alpha": -0.5, "beta": 0.7}}


class RandomGraph:
    """Builds a graph of random operations twice: in range, and with every tensor times a power of two of its own
    (`beyond`), which weights and constants bring about and take back. Both compute the same.

    `of` has, by id of a value, what power of two it is multiplied by."""

    def __init__(self, seed: int, beyond: bool) -> None:
        self._rng, self._beyond, self._seed, self._layers = np.random.default_rng(seed), beyond, seed, 0
        self._builder = GraphBuilder("random")
        self.value = self._builder.input("x", "fp16", (ROWS, WIDTH))
        self.of = {id(self.value): 0.0}

    def made(self) -> Graph:
        """The graph."""
        kinds: dict[str, Callable[[int], Value]] = {
            "linear": lambda t: self.to(self.linear(self.value, t), t), "relu": lambda t: self.tied("relu"),
            "add": lambda t: self.both("add"), "maximum": lambda t: self.both("maximum"), "norm": self.norm,
            "root mean square": self.norm, "softmax": lambda t: self.plain("softmax", axis=-1), "product": self.product,
            "square": lambda t: self.power("square", 2), "root": lambda t: self.root(), "quotient": self.quotient,
            "attention": self.attention, "logarithm": lambda t: self.logarithm(), "concat": lambda t: self.joined(),
            **{name: lambda t, name=name: self.plain(name, **SETTINGS.get(name, {})) for name in TABLES}}
        for _ in range(self._rng.integers(4, 9)):
            name = str(self._rng.choice(list(kinds)))
            exponent = 2 * int(self._rng.integers(-12, 15))
            self.value = kinds[name](exponent if self._beyond else 0)
        return self._builder.finish({"y": self.to(self.linear(self.to(self.value, 0), 0), 0)})

    def add(self, name: str, exponent: float, **operands: Value | float | str | int | tuple[Value, ...] | list[int]
            ) -> Value:
        value = self._builder.single(name, **operands)
        self.of[id(value)] = exponent
        return value

    def to(self, value: Value, exponent: float) -> Value:
        """The value at that exponent, by products with constants."""
        while self._beyond and (left := exponent - self.of[id(value)]):
            step = float(np.clip(left, -12, 12))
            value = self.add("mul", self.of[id(value)] + step, x=value, y=2.0 ** step)
        return value

    def linear(self, value: Value, exponent: float) -> Value:
        """A layer whose weights bring the result as far towards the exponent as they hold, in every other graph with a
        bias, if that is held."""
        self._layers += 1
        biased = bool(self._seed % 2)
        if biased:
            value = self.to(value, float(np.clip(self.of[id(value)], -8, 12)))
            exponent = float(np.clip(exponent, -8, 12))
        rng, before = np.random.default_rng([self._seed, self._layers]), self.of[id(value)]
        step = float(np.clip(round(exponent - before), -9, 9)) if self._beyond else 0.0
        weight = (rng.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH) * 2.0 ** step).astype(np.float16)
        bias = rng.standard_normal(WIDTH) * 0.1 * 2.0 ** (before + step)
        stated = {"bias": bias.astype(np.float16)} if biased else {}
        return self.add("linear", before + step, x=value, weight=weight, **stated)

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
        name = "layer_norm" if self._rng.integers(2) else "rms_norm"
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
        weight = np.random.default_rng(self._seed).standard_normal((WIDTH, 2 * WIDTH)) / 8
        return self.add("linear", here, x=both, weight=weight.astype(np.float16))

    def attention(self, exponent: int) -> Value:
        query, key = (self.to(self.linear(self.value, e), e) for e in (exponent, -exponent))
        scores = self.add("matmul", 0, x=query, y=key, transpose_y=True)
        shares = self.add("softmax", 0, x=self.add("mul", 0, x=scores, y=WIDTH ** -0.5), axis=-1)
        value = self.linear(self.value, exponent)
        return self.add("matmul", self.of[id(value)], x=shares, y=value)


def error(graph: Graph, inputs: dict[str, np.ndarray], precision: str) -> float:
    """The relative L2 error in exact arithmetic."""
    model: Model = compile(graph, precision=precision, samples=inputs, allow_host=False)
    found = run(model, inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    wanted = evaluate(graph, inputs)["y"].astype(np.float64)
    assert np.isfinite(found).all()
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize("seed", [*range(40), 115, 160, 391, 448, 607, 692, 805])
def test_numbers_beyond_the_range_cost_no_digits(seed: int) -> None:
    beyond, inside = RandomGraph(seed, True).made(), RandomGraph(seed, False).made()
    inputs = {"x": np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float16)}
    wanted = evaluate(inside, inputs)["y"]
    if not np.isfinite(wanted).all() or np.abs(wanted).max() > 60000 or not wanted.any():
        return  # powers of powers: nothing that fp16 could hold
    np.testing.assert_allclose(evaluate(beyond, inputs)["y"], wanted, rtol=2e-2, atol=2e-2 * np.abs(wanted).max())
    assert error(beyond, inputs, "safe") <= max(2 * error(inside, inputs, "safe"), 5e-3)
