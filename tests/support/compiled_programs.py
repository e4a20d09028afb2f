"""Small programs of every kind of operation, compiled for any generation: what mutants are made from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from openane.compiler import compile
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.program import Program

Make = Callable[..., Value]
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "convolution": ((1, 4, 8, 8),), "grouped": ((2, 4, 5, 5),), "depthwise": ((1, 18, 7, 7),),
    "strided": ((1, 16, 9, 9),), "max_pool": ((1, 4, 6, 6),), "average_pool": ((1, 4, 6, 6),),
    "broadcast": ((1, 8, 4, 6), (1, 8, 1, 1)), "two_sources": ((1, 3, 4, 20), (1, 3, 4, 20)),
    "vectors": ((1, 8, 4, 6),),
    "softmax": ((1, 20, 1, 1),), "matmul": ((5, 20),), "runtime": ((1, 24, 20), (1, 20, 16)),
    "concat": ((1, 3, 4, 20), (1, 5, 4, 20)), "normalise": ((1, 8, 4, 6),), "table": ((1, 4, 5, 5),),
    "transpose": ((1, 20, 1, 30),)}
"""Inputs of each."""


def _drawn(*shape: int) -> np.ndarray:
    """The same fp16 numbers whenever they are asked for."""
    return (np.random.default_rng(shape).standard_normal(shape) / 4).astype(np.float16)


def _mostly_zero(*shape: int) -> np.ndarray:
    numbers = _drawn(*shape)
    numbers[np.random.default_rng(shape).random(shape) < 0.9] = 0
    return numbers


def _makers(build: GraphBuilder) -> dict[str, Make]:
    one = build.single
    return {
        "convolution": lambda x: one("relu", x=one("conv", x=x, weight=_drawn(6, 4, 3, 3), bias=_drawn(6),
                                                   pad_type="same")),
        "grouped": lambda x: one("conv", x=x, weight=_drawn(4, 2, 3, 3), groups=2),
        "depthwise": lambda x: one("conv", x=x, weight=_drawn(18, 1, 3, 3), groups=18, pad_type="same"),
        "strided": lambda x: one("conv", x=x, weight=_mostly_zero(16, 16, 3, 3), strides=[2, 2]),
        "max_pool": lambda x: one("max_pool", x=x, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid"),
        "average_pool": lambda x: one("avg_pool", x=x, kernel_sizes=[3, 3], strides=[1, 1], pad_type="same"),
        "broadcast": lambda x, z: one("add", x=x, y=z),
        "two_sources": lambda x, z: one("mul", x=x, y=z),
        "vectors": lambda x: one("add", x=one("mul", x=x, y=_drawn(1, 8, 1, 1)), y=_drawn(1, 8, 1, 1)),
        "softmax": lambda x: one("softmax", x=x, axis=1),
        "matmul": lambda x: one("matmul", x=x, y=_drawn(20, 12)),
        "runtime": lambda x, z: one("matmul", x=x, y=z),
        "concat": lambda x, z: one("concat", values=(x, z), axis=1),
        "normalise": lambda x: one("layer_norm", x=x, axes=[1], gamma=_drawn(8), beta=_drawn(8), epsilon=1e-3),
        "table": lambda x: one("sigmoid", x=one("conv", x=x, weight=_drawn(6, 4, 1, 1))),
        "transpose": lambda x: one("transpose", x=x, perm=[0, 3, 2, 1])}


def graph_of(name: str) -> Graph:
    """The graph of one of `SHAPES`, with inputs x and z and the output y."""
    build = GraphBuilder()
    inputs = [build.input(port, "fp16", shape) for port, shape in zip("xz", SHAPES[name], strict=False)]
    return build.finish({"y": _makers(build)[name](*inputs)})


@cache
def compiled_programs(target: str) -> dict[str, Program]:
    """Every base by name."""
    return {name: compile(graph_of(name), target=target).program for name in SHAPES}
