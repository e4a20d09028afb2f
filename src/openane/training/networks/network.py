"""What a network is for training: a graph whose weights are constants, and their numbers in fp32."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np

from openane.errors import FormatError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

INPUT, SCORES = "x", "scores"
"""Names of the input and of the output: one row of scores per label, fp16 [rows, classes]."""
LARGEST = 1 << 27
"""Numbers one weight may have; drawing them takes a gigabyte."""


@dataclass(frozen=True)
class Network:
    """`weights` are fp32 by the names of the constants in `graph` that are trained, `fixed` names arrays of real
    numbers in it that are not. `digest` tells files apart that a network was read from, and is empty where its
    settings say all of it."""

    graph: Graph
    weights: dict[str, np.ndarray]
    fixed: tuple[str, ...] = ()
    digest: str = ""


def _checked(name: str, shape: Iterable[int]) -> tuple[int, ...]:
    """The shape of a weight. FormatError when it would have more numbers than it may."""
    extents = tuple(shape)
    if prod(extents) > LARGEST:
        raise FormatError(f"model: weight {name!r} must have at most {LARGEST} numbers; {list(extents)} are "
                          f"{prod(extents)}")
    return extents


class NetworkMaker:
    """Builds a network: a graph, and weights drawn as they are asked for."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.builder, self.weights = GraphBuilder("training"), dict[str, np.ndarray]()
        self._rng = rng

    def normal(self, name: str, shape: Iterable[int], deviation: float) -> Value:
        """A weight drawn from a normal distribution."""
        extents = _checked(name, shape)
        return self.weight(name, (self._rng.standard_normal(extents) * deviation).astype(np.float32))

    def filled(self, name: str, shape: Iterable[int], number: float) -> Value:
        """A weight of one number."""
        return self.weight(name, np.full(_checked(name, shape), number, np.float32))

    def weight(self, name: str, array: np.ndarray) -> Value:
        """A weight with these first numbers."""
        self.weights[name] = array
        return self.builder.constant(array.astype(np.float16), name)

    def linear(self, name: str, x: Value, outputs: int, deviation: float, bias: bool = True) -> Value:
        """x [..., inputs] times the transpose of a weight [outputs, inputs], plus a bias [outputs] of zeros."""
        weight = self.normal(f"{name}_weight", (outputs, x.shape[-1]), deviation)
        product = self.builder.single("matmul", name, x=x, y=weight, transpose_y=True)
        if not bias:
            return product
        return self.builder.single("add", f"{name}_sum", x=product, y=self.filled(f"{name}_bias", (outputs,), 0.0))

    def finish(self, scores: Value) -> Network:
        """The network that computes these scores [rows, classes]."""
        return Network(self.builder.finish({SCORES: scores}), self.weights)
