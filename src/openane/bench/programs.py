"""Programs that probe an engine: chains of layers, products, streams, sums, attention.

Weights are drawn: only their sizes matter to time, but no two layers share one unless that is the point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

ROW = 4096
"""Elements of a row of the published elementwise measurements."""


def drawn(*shape: int) -> np.ndarray:
    """fp16 weights, the same for the same shape: one drawn row, scaled differently for every output channel."""
    row = np.random.default_rng(0).standard_normal(shape[1:]).astype(np.float16)
    scales = np.linspace(0.5, 1, shape[0]) / np.sqrt(max(1, row.size))
    weights: np.ndarray = row * scales.astype(np.float16).reshape(-1, *(1,) * row.ndim)
    return weights


def chain_conv1x1(depth: int, channels: int, height: int, width: int, shared: int) -> Graph:
    """Pointwise convolutions one after the other, with one block of weights or one each."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, channels, height, width))
    weight = drawn(channels, channels, 1, 1)
    for number in range(depth):
        x = build.single("conv", x=x, weight=weight if shared else weight * np.float16(1 + number / 64))
    return build.finish({"y": x})


def conv(kernel: int, inputs: int, outputs: int, height: int, width: int, batch: int) -> Graph:
    """One convolution; `height` and `width` are the result's."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (batch, inputs, height, width))
    weight = drawn(outputs, inputs, kernel, kernel)
    return build.finish({"y": build.single("conv", x=x, weight=weight, pad_type="same")})


def gemm(rows: int, inner: int, columns: int) -> Graph:
    """Rows times constant weights."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (rows, inner))
    return build.finish({"y": build.single("linear", x=x, weight=drawn(columns, inner))})


def chain_gemm(depth: int, rows: int, inner: int, columns: int) -> Graph:
    """The same, one after the other."""
    build = GraphBuilder()
    x: Value = build.input("x", "fp16", (rows, inner))
    for number in range(depth):
        weight = drawn(columns, inner) * np.float16(1 + number / 64)
        x = build.single("linear", x=x, weight=weight)
    return build.finish({"y": x})


def chain_conv3x3(depth: int, channels: int, height: int, width: int) -> Graph:
    """3x3 convolutions one after the other."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, channels, height, width))
    for number in range(depth):
        weight = drawn(channels, channels, 3, 3) * np.float16(1 + number / 64)
        x = build.single("conv", x=x, weight=weight, pad_type="same")
    return build.finish({"y": x})


def rows_of(elements: int) -> tuple[int, int]:
    """The published rows: [elements / 4096, 4096]."""
    if elements % ROW:
        raise GraphError(f"{elements} elements are no rows of {ROW}")
    return elements // ROW, ROW


def unary(name: str, **settings: Any) -> Callable[[int], Graph]:
    """An operation on published rows."""
    def make(elements: int) -> Graph:
        build = GraphBuilder()
        return build.finish({"y": build.single(name, x=build.input("x", "fp16", rows_of(elements)), **settings)})
    return make


def product_sum(elements: int) -> Graph:
    """The inner products of two inputs' rows."""
    build = GraphBuilder()
    x, y = (build.input(name, "fp16", (elements // 2560, 2560)) for name in "xy")
    return build.finish({"z": build.single("reduce_sum", x=build.single("mul", x=x, y=y), axes=[-1], keep_dims=True)})


def attention(length: int, width: int, heads: int) -> Graph:
    """Multi-head attention with its four projections."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, length, width))

    def project(value: Value) -> Value:
        return build.single("linear", x=value, weight=drawn(width, width),
                            bias=np.zeros(width, np.float16))

    def split(value: Value) -> Value:
        apart = build.single("reshape", x=value, shape=[1, length, heads, width // heads])
        return build.single("transpose", x=apart, perm=[0, 2, 1, 3])

    query, key, value = (split(project(x)) for _ in range(3))
    mixed = build.single("scaled_dot_product_attention", query=query, key=key, value=value)
    together = build.single("reshape", x=build.single("transpose", x=mixed, perm=[0, 2, 1, 3]),
                            shape=[1, length, width])
    return build.finish({"y": project(together)})


def group_norm(channels: int, height: int, width: int) -> Graph:
    """32 groups, as the norm of each group's elements with gains and offsets per channel."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, channels, height, width))
    groups = build.single("reshape", x=x, shape=[1, 32, channels // 32 * height, width])
    norm = build.single("layer_norm", x=groups, axes=[2, 3], epsilon=1e-5)
    back = build.single("reshape", x=norm, shape=[1, channels, height, width])
    ones = np.ones((1, channels, 1, 1), np.float16)
    return build.finish({"y": build.single("add", x=build.single("mul", x=back, y=ones * 2), y=ones)})


def stencil(steps: int, height: int, width: int) -> Graph:
    """A 3x3 stencil on one plane, again and again."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 1, height, width))
    for _ in range(steps):
        x = build.single("conv", x=x, weight=np.full((1, 1, 3, 3), 1 / 9, np.float16), pad_type="same")
    return build.finish({"y": x})
