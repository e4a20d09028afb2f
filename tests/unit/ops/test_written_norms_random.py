"""Whatever is computed of a tensor, its means and their roots is the same after norms in it were recognised: graphs put
together at random from the parts norms are written in, most of them norms and some nearly."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.recognise import recognise

SHAPES = ((2, 4, 6), (3, 5), (2, 4, 3, 4), (1, 6, 4), (4, 4, 4), (2, 6, 1, 4))
SEEDS = range(400)


class Composed:
    """A graph of parts drawn for a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder()
        self.shape = SHAPES[self.rng.integers(len(SHAPES))]
        self.x = self.builder.input("x", "fp16", self.shape)
        rank = len(self.shape)
        self.axes = sorted(self.rng.choice(rank, self.rng.integers(1, rank), replace=False).tolist())
        self.kept = [1 if axis in self.axes else extent for axis, extent in enumerate(self.shape)]
        self.count = int(np.prod([self.shape[axis] for axis in self.axes]))

    def of(self, op: str, x: object, y: object = None, **more: object) -> Value:
        return self.builder.single(op, x=x, **({} if y is None else {"y": y}), **more)

    def one(self, *choices: object) -> object:
        return choices[self.rng.integers(len(choices))]

    def mean(self, value: Value) -> Value:
        """The mean over the axes, sometimes over others, by one way or another."""
        axes = self.axes if self.rng.random() < 0.95 else [int(self.rng.integers(len(self.shape)))]
        flat = self.rng.random() < 0.3 and axes == self.axes
        op, factor = self.one(("reduce_mean", None), ("reduce_sum", "mul"), ("reduce_sum", "real_div"))  # type: ignore
        result = self.of(op, value, axes=axes, keep_dims=not flat)
        count = float(np.prod([self.shape[axis] for axis in axes])) - (self.rng.random() < 0.1)
        if factor is not None and count > 0:
            exact = np.log2(count) % 1 == 0  # so that fp16 holds the reciprocal
            result = self.of("mul", result, 1 / count) if factor == "mul" and exact else \
                self.of("real_div", result, count)
        return self.of("reshape", result, shape=self.kept) if flat else result

    def square(self, value: Value) -> Value:
        return self.one(lambda: self.of("mul", value, value), lambda: self.of("square", value),
                        lambda: self.of("pow", value, 2.0), lambda: self.of("square", self.of("abs", value)))()

    def spread(self, mean: Value) -> Value:
        """A variance or mean square, and what may be done to it."""
        kind = self.rng.random()
        if kind < 0.4:
            result = self.mean(self.square(self.of("sub", self.x, mean)))
        elif kind < 0.6:
            result = self.of("sub", self.mean(self.square(self.x)), self.square(mean))
        else:
            result = self.mean(self.square(self.x))
        if self.rng.random() < 0.3:
            result = self.one(lambda: self.of("maximum", result, 0.0), lambda: self.of("relu", result),
                              lambda: self.of("mul", result, 1.25), lambda: self.of("maximum", 0.2, result))()
        return self.of("add", result, self.one(1e-2, 0.5)) if self.rng.random() < 0.9 else result

    def root(self, spread: Value) -> Value:
        """The reciprocal root, one way or another."""
        return self.one(
            lambda: self.of("rsqrt", spread, epsilon=1e-3), lambda: self.of("pow", spread, -0.5),
            lambda: self.of("inverse", self.of("sqrt", spread), epsilon=0.0),
            lambda: self.of("real_div", 1.0, self.of("sqrt", spread)),
            lambda: self.of("exp", self.of("mul", self.of("log", spread, epsilon=1e-6), -0.5)),
            lambda: self.of("inverse", self.of("add", self.of("sqrt", spread), 0.1), epsilon=0.0))()

    def constant(self) -> object:
        """A number, or one for each position of some dimensions."""
        if self.rng.random() < 0.3:
            return float(self.one(0.5, 2.0, -1.5))  # type: ignore[arg-type]
        shape = [extent if self.rng.random() < 0.5 else 1 for extent in self.shape]
        return self.rng.uniform(0.5, 2, shape).astype(np.float16)

    def graph(self) -> Graph:
        """x less its mean, or x, times a root, in an order that is drawn, and some of what it is made of."""
        mean = self.mean(self.x)
        spread = self.spread(mean)
        root = self.root(spread)
        gain = self.of("mul", root, self.constant()) if self.rng.random() < 0.5 else root
        order = self.rng.random()
        if order < 0.3:
            result = self.of("mul", self.of("sub", self.x, mean), gain)
        elif order < 0.5:
            result = self.of("mul", gain, self.of("sub", mean, self.x))
        elif order < 0.7:
            back = self.of("mul", mean, gain if self.rng.random() < 0.9 else root)
            result = self.of("add", self.of("mul", self.x, gain), self.of("sub", self.constant(), back))
        else:
            result = self.of("mul", self.x, gain)
        if self.rng.random() < 0.5:
            result = self.of("add", self.of("mul", result, self.constant()), self.constant())
        values = {"y": result} | ({"shared": self.one(mean, spread, root)} if self.rng.random() < 0.4 else {})
        return self.builder.finish(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", range(4))
def test_graphs_of_the_parts_of_norms_mean_the_same(part: int) -> None:
    found: Counter[str] = Counter()
    for seed in SEEDS[part::4]:
        graph = Composed(seed).graph()
        made = recognise(graph)
        made.verify()
        found.update({node.op for node in made.nodes} & {"layer_norm", "rms_norm", "reduce_l2_norm"})
        x = np.random.default_rng(seed).normal(0.3, 1, graph.inputs[0].shape).astype(np.float32)
        before, after = evaluate(graph, {"x": x}), evaluate(made, {"x": x})
        for name, wanted in before.items():
            sound = np.isfinite(wanted)
            np.testing.assert_allclose(after[name][sound], wanted[sound], rtol=4e-3, atol=4e-3, err_msg=f"seed {seed}")
    assert min(found["layer_norm"], found["rms_norm"]) > 2, found
