"""Published timing points as programs: the engine operations a chip would run for them.

Every chip's program is planned as for H13, whose limits (2 MiB of L2 for a tensor, 64 KiB of coefficients a core) the
later generations share as far as is known; weights are drawn, since only their sizes matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np

import openane as ane
from openane.engine import NeuralOperation, Operation
from openane.engine.coefficients import Coefficients
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.program import Program
from openane.timing import operations_of

ROW = 4096
"""Elements of a row of the published elementwise rows."""
LARGEST_PORT = 1 << 25


class UnknownPointError(Exception):
    """A point nobody can compute from what it states."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A point's program: its operations, and the bytes of its inputs and outputs."""

    operations: tuple[Operation, ...]
    read: int
    written: int


def planned(point: Mapping[str, Any]) -> Planned:
    """The program of a point. UnknownPointError says what is not known about it."""
    given = point["params"]
    name = given.get("op")
    if name not in MAKERS:
        raise UnknownPointError(f"no program is known for {name or given.get('path') or given}")
    if given.get("dtype") not in (None, "fp16"):
        raise UnknownPointError(f"element type {given['dtype']} is not modelled")
    maker, wanted = MAKERS[name]
    missing = [key for key in wanted if not isinstance(given.get(key, DEFAULTS.get(key)), int)]
    if missing:
        raise UnknownPointError(f"{name} does not state {', '.join(missing)}")
    try:
        return _compiled(name, tuple(int(given.get(key, DEFAULTS.get(key, 0))) for key in wanted))
    except ane.AneError as error:
        raise UnknownPointError(str(error).splitlines()[0]) from None


@cache
def _compiled(name: str, sizes: tuple[int, ...]) -> Planned:
    model = ane.compile(MAKERS[name][0](*sizes))
    operations = tuple(op for step in model.steps for op in _aliased(model.programs[step.program]))
    return Planned(operations, sum(port.layout.size for port in model.inputs),
                   sum(port.layout.size for port in model.outputs))


def _aliased(program: Program) -> Iterator[Operation]:
    """A program's operations, those with equal coefficients reading the same bytes: layers that share a block of
    weights have one copy of it in the programs that were measured."""
    known: dict[bytes, Coefficients] = {}
    for operation in operations_of(program):
        if isinstance(operation, NeuralOperation) and operation.coefficients is not None \
                and not operation.coefficients.runtime:
            one = operation.coefficients
            content = b"".join(program.constants[offset:offset + size] for _, offset, size in one.streams)
            operation = replace(operation, coefficients=known.setdefault(sha256(content).digest(), one))
        yield operation


def drawn(*shape: int) -> np.ndarray:
    """Weights, the same for the same shape: one drawn row, scaled differently for every output channel."""
    row = np.random.default_rng(0).standard_normal(shape[1:]).astype(np.float16)
    scales = np.linspace(0.5, 1, shape[0], dtype=np.float16) / np.float16(np.sqrt(max(1, np.prod(shape[1:]))))
    return row * scales.reshape(-1, *(1,) * row.ndim)


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
        raise UnknownPointError(f"{elements} elements are no rows of {ROW}")
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


MAKERS: dict[str, tuple[Callable[..., Graph], tuple[str, ...]]] = {
    "chain_conv1x1": (chain_conv1x1, ("depth", "C", "H", "W", "shared_weights")),
    "conv1x1": (lambda c, h, w: chain_conv1x1(1, c, h, w, 0), ("C", "H", "W")),
    "conv": (conv, ("kh", "Cin", "Cout", "H", "W", "batch")),
    "chain_conv3x3": (chain_conv3x3, ("depth", "C", "H", "W")),
    "gemm": (gemm, ("M", "K", "N")),
    "chain_gemm": (chain_gemm, ("depth", "M", "K", "N")),
    "relu_stream": (unary("relu"), ("elems",)),
    "relu": (unary("relu"), ("elems",)),
    "gelu": (unary("gelu"), ("elems",)),
    "reduce_sum": (unary("reduce_sum", axes=[-1], keep_dims=True), ("elems",)),
    "softmax": (unary("softmax", axis=-1), ("elems",)),
    "mul+reduce_sum": (product_sum, ("elems",)),
    "mha": (attention, ("S", "D", "heads")),
    "group_norm": (group_norm, ("C", "H", "W")),
    "stencil": (stencil, ("steps", "H", "W")),
}
DEFAULTS = {"shared_weights": 0, "H": 1, "batch": 1, "depth": 1}
