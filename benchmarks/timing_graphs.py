"""Graphs of single operations that published timing points name, beside those of `openane.bench.programs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openane.bench.programs import drawn
from openane.errors import GraphError
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

ROW = 4096
SHORTEST = 64


def rows_of(elements: int) -> tuple[int, int]:
    """[rows, row] with the longest row of at most 4096 elements. GraphError when it were shorter than 64."""
    row = next(row for row in range(min(ROW, elements), 0, -1) if not elements % row)
    if row < min(SHORTEST, elements):
        raise GraphError(f"{elements} elements are no rows of {SHORTEST} to {ROW}")
    return elements // row, row


def unary(name: str, **settings: Any) -> Callable[[int], Graph]:
    """An operation on rows."""
    def make(elements: int) -> Graph:
        build = GraphBuilder()
        return build.finish({"y": build.single(name, x=build.input("x", "fp16", rows_of(elements)), **settings)})
    return make


def binary(name: str) -> Callable[[int], Graph]:
    """An operation on two inputs' rows."""
    def make(elements: int) -> Graph:
        build = GraphBuilder()
        x, y = (build.input(each, "fp16", rows_of(elements)) for each in "xy")
        return build.finish({"z": build.single(name, x=x, y=y)})
    return make


def layer_norm(elements: int) -> Graph:
    """The norm of every row."""
    build = GraphBuilder()
    x = build.input("x", "fp16", rows_of(elements))
    return build.finish({"y": build.single("layer_norm", x=x, axes=[-1], epsilon=1e-5)})


def conv(high: int, wide: int, inputs: int, outputs: int, height: int, width: int, batch: int, stride: int,
         groups: int) -> Graph:
    """One convolution; `height` and `width` are the result's, `inputs` counts all groups."""
    build = GraphBuilder()
    x = build.input("x", "fp16", (batch, inputs, height * stride, width * stride))
    weight = drawn(outputs, max(1, inputs // groups), high, wide)
    return build.finish({"y": build.single("conv", x=x, weight=weight, pad_type="same", strides=[stride, stride],
                                           groups=groups)})


def depthwise(kernel: int, channels: int, height: int, width: int, batch: int, stride: int) -> Graph:
    """A convolution of every channel by itself."""
    return conv(kernel, kernel, channels, channels, height, width, batch, stride, channels)


def pooled(name: str) -> Callable[[int, int, int, int, int, int], Graph]:
    """Windows of an image; `height` and `width` are the source's."""
    def make(kernel: int, stride: int, channels: int, height: int, width: int, batch: int) -> Graph:
        build = GraphBuilder()
        x = build.input("x", "fp16", (batch, channels, height, width))
        given: dict[str, Any] = {"exclude_padding_from_average": False} if name == "avg_pool" else {}
        return build.finish({"y": build.single(name, x=x, kernel_sizes=[kernel, kernel], strides=[stride, stride],
                                               pad_type="same", **given)})
    return make


def product(batch: int, rows: int, inner: int, columns: int) -> Graph:
    """A product of two inputs."""
    build = GraphBuilder()
    lead = (batch,) if batch > 1 else ()
    x: Value = build.input("x", "fp16", (*lead, rows, inner))
    y: Value = build.input("y", "fp16", (*lead, inner, columns))
    return build.finish({"z": build.single("matmul", x=x, y=y)})
