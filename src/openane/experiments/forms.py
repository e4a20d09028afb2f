"""Small graphs that experiments are made of, and numbers that engines may treat otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openane.graph import Graph
from openane.ops.build import GraphBuilder

Make = Callable[[], Graph]
Shape = tuple[int, ...]


def one(name: str, shape: Shape, **settings: Any) -> Make:
    """One operation of one input."""
    def make() -> Graph:
        build = GraphBuilder()
        return build.finish({"y": build.single(name, x=build.input("x", "fp16", shape), **settings)})
    return make


def two(name: str, shape: Shape, other: Shape | None = None, **settings: Any) -> Make:
    """One operation of two inputs."""
    def make() -> Graph:
        build = GraphBuilder()
        x, y = build.input("x", "fp16", shape), build.input("z", "fp16", other or shape)
        return build.finish({"y": build.single(name, x=x, y=y, **settings)})
    return make


def weights(*shape: int, seed: int = 7, scale: float = 0.25) -> np.ndarray:
    """Drawn weights."""
    drawn = np.random.default_rng(seed).standard_normal(shape) * scale
    return drawn.astype(np.float16)


def conv(channels: int, outputs: int, size: Sequence[int], kernel: Sequence[int] = (3, 3), *, groups: int = 1,
         data: Callable[..., np.ndarray] = weights, **settings: Any) -> Make:
    """One convolution with drawn weights."""
    def make() -> Graph:
        build = GraphBuilder()
        x = build.input("x", "fp16", (1, channels, *size))
        weight = data(outputs, channels // groups, *kernel)
        return build.finish({"y": build.single("conv", x=x, weight=weight, groups=groups, **settings)})
    return make


def linear(rows: int, inner: int, columns: int, bias: bool = False) -> Make:
    """Rows times constant weights."""
    def make() -> Graph:
        build = GraphBuilder()
        more: dict[str, Any] = {"bias": weights(columns, seed=8)} if bias else {}
        x = build.input("x", "fp16", (rows, inner))
        return build.finish({"y": build.single("linear", x=x, weight=weights(columns, inner), **more)})
    return make


def ones_product(inner: int) -> Make:
    """A row times ones: its sum, by the multiply-accumulate array."""
    def make() -> Graph:
        build = GraphBuilder()
        x = build.input("x", "fp16", (8, inner))
        return build.finish({"y": build.single("linear", x=x, weight=np.ones((4, inner), np.float16))})
    return make


def chain(shape: Shape, *steps: tuple[str, dict[str, Any]]) -> Make:
    """Operations one after the other, each on the result of the one before."""
    def make() -> Graph:
        build = GraphBuilder()
        x = build.input("x", "fp16", shape)
        for name, settings in steps:
            x = build.single(name, x=x, **settings)
        return build.finish({"y": x})
    return make


def many_inputs(count: int, shape: Shape) -> Make:
    """The sum of many inputs."""
    def make() -> Graph:
        build = GraphBuilder()
        values = [build.input(f"x{number:02}", "fp16", shape) for number in range(count)]
        total = values[0]
        for value in values[1:]:
            total = build.single("add", x=total, y=value)
        return build.finish({"y": total})
    return make


def special(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Infinities, what is no number, zeros of both signs, subnormal and large numbers among normal ones."""
    kinds = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 6e-8, -6e-8, 3e-5, 65504, -65504, 40000, 1, -2],
                     np.float16)
    drawn = generator.standard_normal(shape).astype(np.float16)
    places = generator.integers(0, 4 * len(kinds), shape)
    return np.where(places < len(kinds), kinds[places % len(kinds)], drawn)


def positive(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers from 0.25 to 4."""
    return generator.uniform(0.25, 4, shape).astype(np.float16)


def large(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers whose sums and products leave fp16, and some that stay within: ever larger but along the longest axis."""
    drawn = np.moveaxis(generator.standard_normal(shape), int(np.argmax(shape)), -1)
    grown = drawn * np.geomspace(1, 20000, drawn[..., 0].size).reshape(*drawn.shape[:-1], 1)
    return np.moveaxis(np.clip(grown, -60000, 60000), -1, int(np.argmax(shape))).astype(np.float16)


def cancelling(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Along the longest axis small numbers between a large one and its negative: a sum that is only right when nothing
    is lost beside the large one."""
    drawn = np.moveaxis(generator.standard_normal(shape) * 1e-3, int(np.argmax(shape)), -1)
    drawn[..., 0], drawn[..., -1] = 30000, -30000
    return np.moveaxis(drawn, -1, int(np.argmax(shape))).astype(np.float16)


def small(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Numbers around the smallest normal one."""
    return (generator.standard_normal(shape) * 3e-5).astype(np.float16)


def peaks(generator: np.random.Generator, shape: Shape) -> np.ndarray:
    """Along the longest axis 4096 beside ones, and triples of a large number, its negative and about one: what a narrow
    adder loses, as published probes have it."""
    axis = int(np.argmax(shape))
    rows = np.moveaxis(np.ones(shape), axis, -1)
    rows += generator.uniform(0, 0.5, rows.shape)
    flat = rows.reshape(-1, rows.shape[-1])
    for number, row in enumerate(flat):
        if number % 2:
            row[0] = 4096
        else:
            height = (4096, 8000, 16000, 30000)[number // 2 % 4]
            row[0:len(row) // 3 * 3:3], row[1:len(row) // 3 * 3:3] = height, -height
    return np.moveaxis(flat.reshape(rows.shape), -1, axis).astype(np.float16)


__all__ = ["cancelling", "chain", "conv", "large", "linear", "many_inputs", "one", "ones_product", "peaks", "positive",
           "small", "special", "two", "weights"]
