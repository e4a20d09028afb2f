"""Graphs of random operations whose numbers are anywhere: each is built twice, in range and beyond it, and computes the
same."""

from __future__ import annotations

import numpy as np

from openane.compiler import Model, compile
from openane.devices import run
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

MOST = 60000
"""Results beyond it are not compared: fp16 ends at 65504."""
Given = Value | float | str | bool | tuple[Value, ...] | list[int] | np.ndarray


class TiedGraph:
    """Builds a graph in range, or with every tensor times a power of two of its own (`beyond`), which weights and
    constants bring about and take back. `of` has, by id of a value, what power of two it is multiplied by."""

    def __init__(self, seed: int, beyond: bool, shape: tuple[int, ...]) -> None:
        self.seed, self.beyond, self.layers = seed, beyond, 0
        self.rng, self.builder = np.random.default_rng(seed), GraphBuilder("random")
        self.value = self.builder.input("x", "fp16", shape)
        self.of = {id(self.value): 0.0}

    def exponent(self) -> int:
        """One to bring the next tensor to, drawn in either case."""
        drawn = 2 * int(self.rng.integers(-12, 15))
        return drawn if self.beyond else 0

    def add(self, name: str, exponent: float, **operands: Given) -> Value:
        """An operation with one result, and the result's power of two."""
        value = self.builder.single(name, **operands)
        self.of[id(value)] = exponent
        return value

    def to(self, value: Value, exponent: float) -> Value:
        """The value at that exponent, by products with constants."""
        while self.beyond and (left := exponent - self.of[id(value)]):
            step = float(np.clip(left, -12, 12))
            value = self.add("mul", self.of[id(value)] + step, x=value, y=2.0 ** step)
        return value

    def weighted(self, name: str, value: Value, exponent: float, shape: tuple[int, ...], inputs: int,
                 **settings: Given) -> Value:
        """A layer whose weights bring the result as far towards the exponent as they hold, in every other graph with a
        bias, if that is held."""
        self.layers += 1
        biased = bool(self.seed % 2)
        if biased:
            value = self.to(value, float(np.clip(self.of[id(value)], -8, 12)))
            exponent = float(np.clip(exponent, -8, 12))
        rng, before = np.random.default_rng([self.seed, self.layers]), self.of[id(value)]
        step = float(np.clip(round(exponent - before), -9, 9)) if self.beyond else 0.0
        weight = (rng.standard_normal(shape) / np.sqrt(inputs) * 2.0 ** step).astype(np.float16)
        bias = rng.standard_normal(shape[0]) * 0.1 * 2.0 ** (before + step)
        stated = {"bias": bias.astype(np.float16)} if biased else {}
        return self.add(name, before + step, x=value, weight=weight, **stated, **settings)


def error(graph: Graph, inputs: dict[str, np.ndarray], precision: str) -> float:
    """The relative L2 error in exact arithmetic."""
    model: Model = compile(graph, precision=precision, samples=inputs, allow_host=False)
    found = run(model, inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    wanted = evaluate(graph, inputs)["y"].astype(np.float64)
    assert np.isfinite(found).all()
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def costs_no_digits(beyond: Graph, inside: Graph, x: np.ndarray) -> bool:
    """Whether the graph beyond the range errs at most twice as much as the one in it, and both compute the same. True
    of powers of powers, too: nothing that fp16 could hold."""
    inputs = {"x": x}
    wanted = evaluate(inside, inputs)["y"]
    if not np.isfinite(wanted).all() or np.abs(wanted).max() > MOST or not wanted.any():
        return True
    np.testing.assert_allclose(evaluate(beyond, inputs)["y"], wanted, rtol=2e-2, atol=2e-2 * np.abs(wanted).max())
    return error(beyond, inputs, "safe") <= max(2 * error(inside, inputs, "safe"), 5e-3)
