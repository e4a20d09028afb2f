"""Random small graphs over every operation there is, and how far rounding may take their results."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Node, Value
from openane.ops import all_ops
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate_node

LIMIT = 3e4
"""References beyond it are not compared: fp16 ends at 65504."""


LONG = (1025, 4097, 5000, 16384, 16385, 20000, 21922, 32768, 40000, 50001, 65536, 65537, 100_000)
"""Extents around and beyond what the engine takes in one task."""


class Maker:
    """Draws operands: values made before, new inputs, constants."""

    def __init__(self, seed: int, wide: bool = False, long: bool = False) -> None:
        self.draw, self.wide, self.long = random.Random(seed), wide, long
        self.numbers = np.random.default_rng(seed)
        self.builder = GraphBuilder()
        self.values: list[Value] = []
        self.inputs = 0

    def shape(self, low: int = 1, high: int = 5) -> tuple[int, ...]:
        """A shape of a rank within low..high."""
        rank = self.draw.randint(low, high)
        if self.long:
            shape = [self.draw.choice((1, 1, 1, 2, 3)) for _ in range(rank)]
            shape[self.draw.randrange(rank)] = self.draw.choice(LONG)
            return tuple(shape)
        small = (1, 1, 2, 3, 4, 5, 6, 8) if rank > 2 else (1, 2, 3, 7, 16, 33, 64)
        shape = [self.draw.choice(small) for _ in range(rank)]
        if self.wide:
            shape[self.draw.randrange(rank)] = self.draw.choice((17, 31, 32, 33, 63, 64, 65, 100, 129, 300, 520))
        return tuple(shape)

    def input(self, shape: tuple[int, ...], dtype: str = "fp16") -> Value:
        """A new port."""
        self.inputs += 1
        return self.builder.input(f"x{self.inputs}", dtype, shape)

    def real(self, low: int = 1, high: int = 5, shape: tuple[int, ...] | None = None) -> Value:
        """A fp16 value, often one made before; from a port of another type now and then."""
        known = [value for value in self.values if value.dtype == "fp16" and
                 (value.shape == shape if shape is not None else low <= value.type.rank <= high)]
        if known and self.draw.random() < 0.75:
            return self.draw.choice(known)
        dtype = self.draw.choice(["fp16"] * 8 + ["fp32", "int8", "uint8", "int32", "bool"])
        x = self.input(self.shape(low, high) if shape is None else shape, dtype)
        return x if dtype == "fp16" else self.builder.single("cast", x=x, dtype="fp16")

    def within(self, bound: float, low: float | None = None, **ranks: Any) -> Value:
        """A fp16 value cut off at low..bound."""
        return self.builder.single("clip", x=self.real(**ranks), alpha=-bound if low is None else low, beta=bound)

    def whole(self, low: int = 1, high: int = 5, shape: tuple[int, ...] | None = None) -> Value:
        """An int32 port, whose numbers are exact on the engine."""
        known = [value for value in self.values if value.dtype == "int32" and
                 (value.shape == shape if shape is not None else low <= value.type.rank <= high)]
        if known and self.draw.random() < 0.5:
            return self.draw.choice(known)
        return self.input(self.shape(low, high) if shape is None else shape, "int32")

    def condition(self, shape: tuple[int, ...] | None = None) -> Value:
        """A bool value: a port, or a comparison of fp16 with a number between those that ports hold."""
        known = [value for value in self.values if value.dtype == "bool" and shape in (None, value.shape)]
        if known and self.draw.random() < 0.6:
            return self.draw.choice(known)
        if self.draw.random() < 0.5:
            return self.input(self.shape() if shape is None else shape, "bool")
        return self.builder.single("greater", x=self.input(shape or self.shape()), y=np.float16(0.1))

    def partner(self, x: Value, dtype: str = "fp16") -> Value | np.ndarray:
        """What broadcasts against x: x itself, a value of its shape, a port with extents of 1, a constant."""
        kind = self.draw.randrange(5)
        if kind == 0:
            return x
        shape = tuple(self.draw.choice((extent, extent, 1)) for extent in x.shape)
        shape = shape[self.draw.randint(0, len(shape)):] if kind == 3 else shape
        if kind == 1 or dtype != "fp16":
            return self.real(shape=x.shape) if dtype == "fp16" else self.whole(shape=x.shape)
        return self.constant(shape) if kind == 2 else self.input(shape)

    def constant(self, shape: tuple[int, ...], scale: float = 1.0) -> np.ndarray:
        """fp16 numbers around 0."""
        return (self.numbers.standard_normal(shape) * scale).astype(np.float16)

    def axis(self, x: Value) -> int:
        """One axis, from either end."""
        return self.draw.randrange(-x.type.rank, x.type.rank)

    def axes(self, x: Value) -> list[int]:
        """Some axes, at least one."""
        return sorted(self.draw.sample(range(x.type.rank), self.draw.randint(1, x.type.rank)))

    def flip(self) -> bool:
        """True or false."""
        return self.draw.random() < 0.5

    def indices(self, extent: int, shape: tuple[int, ...]) -> np.ndarray:
        """Constant positions below `extent`."""
        return self.numbers.integers(0, extent, shape, np.int32)

    def window(self, x: Value) -> dict[str, Any]:
        """Kernel, strides and padding over the spatial axes."""
        spatial = x.shape[2:]
        kernel = [self.draw.randint(1, min(3, extent)) for extent in spatial]
        pad = {"pad_type": self.draw.choice(("valid", "same", "same_lower"))} if self.flip() else \
            {"pad_type": "custom", "pad": [self.draw.randint(0, size // 2) for size in kernel for _ in "ab"]}
        return {"kernel": kernel, "strides": [self.draw.randint(1, 2) for _ in spatial], **pad}


Operands = Callable[[Maker], Mapping[str, Any]]


def draw_graph(seed: int, table: Mapping[str, Operands], steps: int, op: str | None = None, *,
               wide: bool = False, long: bool = False) -> Graph:
    """A graph of `steps` operations drawn from `table`, `op` being the first; one axis of shapes is longer when `wide`,
    up to 100,000 when `long`.
    Every value nobody reads is an output, and now and then one that is read. GraphError when something drawn does not
    fit."""
    maker = Maker(seed, wide, long)
    for step in range(steps):
        name = op if op is not None and step == 0 else maker.draw.choice(sorted(table))
        results = maker.builder.add(name, **table[name](maker))
        maker.values += results if isinstance(results, tuple) else (results,)
    if not maker.inputs:
        raise GraphError("no input was drawn")
    read = maker.builder.finish(maker.values[-1:]).users()
    return maker.builder.finish([value for value in maker.values if id(value) not in read or maker.draw.random() < 0.2])


def draw_inputs(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    """Data for the ports: quarters within -3..3 for fp16, small integers for the others."""
    rng = np.random.default_rng(seed)
    kinds = {"bool": (0, 2), "uint8": (0, 5), "int8": (-3, 4), "int32": (0, 6)}
    data = {}
    for value in graph.inputs:
        if value.dtype in kinds:
            data[value.name] = rng.integers(*kinds[value.dtype], value.shape).astype(value.dtype)
        else:
            data[value.name] = (rng.integers(-12, 13, value.shape) / 4).astype(
                np.float16 if value.dtype == "fp16" else np.float32)
    return data


def spread(graph: Graph, inputs: Mapping[str, np.ndarray], trials: int = 4) -> dict[str, tuple[np.ndarray, float]]:
    """References by output, and the largest difference small errors in every operation make to each: results of
    operations on the engine are off by a rounding or an error of a table."""
    rng = np.random.default_rng(1)
    exact = _evaluated(graph, inputs, rng, 0.0)
    worst = dict.fromkeys(exact, 0.0)
    for _ in range(trials):
        noisy = _evaluated(graph, inputs, rng, 2e-3)
        for name, array in exact.items():
            with np.errstate(all="ignore"):
                difference = np.abs(noisy[name].astype(np.float64) - array.astype(np.float64))
            worst[name] = max(worst[name], float(np.nanmax(difference, initial=0.0)))
    return {name: (array, worst[name]) for name, array in exact.items()}


def _evaluated(graph: Graph, inputs: Mapping[str, np.ndarray], rng: np.random.Generator,
               noise: float) -> dict[str, np.ndarray]:
    arrays = {id(value): inputs[value.name].astype(np.float32) if inputs[value.name].dtype.kind == "f"
              else inputs[value.name] for value in graph.inputs}
    for node in graph.nodes:
        for value, array in zip(node.outputs, evaluate_node(node, arrays), strict=True):
            arrays[id(value)] = _disturbed(node, array, rng, noise)
    return {value.name: np.asarray(arrays[id(value)] if value.data is None else value.data)
            for value in graph.outputs}


EXACT = frozenset(["relu", "reshape", "transpose", "concat", "identity", "clip", "cast", "maximum", "minimum", "abs"])


def _disturbed(node: Node, array: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    if not noise or array.dtype.kind != "f" or node.op in EXACT:
        return array
    relative, absolute = (rng.uniform(-noise, noise, array.shape) for _ in "ab")
    return (array * (1 + relative) + absolute).astype(np.float32)


def uncovered(table: Mapping[str, Operands]) -> list[str]:
    """Operations the table does not draw."""
    return sorted(set(all_ops()) - set(table))
