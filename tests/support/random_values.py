"""Random graphs that hypothesis can shrink: values with several readers, views of views, outputs in the middle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder

SIMPLE = ("relu", "abs", "halve", "shift", "reshape", "transpose", "flatten", "pool", "conv", "scale", "mean",
          "largest", "softmax", "add", "sub", "maximum", "concat", "linear", "tanh", "pad", "slice", "matmul")
SMALL = ((1, 3, 6, 5), (2, 4, 4, 4), (3, 8), (1, 2, 33))
"""Shapes of inputs of graphs that are quickly run."""


def grow(draw: Callable[..., Any], builder: GraphBuilder, values: Sequence[Value], rng: np.random.Generator) -> Value:
    """One more value from those there are."""
    x = draw(st.sampled_from(values))
    kind = draw(st.sampled_from(SIMPLE))
    rank, shape = len(x.shape), x.shape
    if kind in ("relu", "abs", "tanh"):
        return builder.single(kind, x=x)
    if kind == "halve":
        return builder.single("mul", x=x, y=np.float16(0.5))
    if kind == "shift":
        return builder.single("sub", x=np.float16(0.25), y=x)
    if kind == "scale":
        return builder.single("mul", x=x, y=rng.uniform(-1, 1, (shape[0], *(1,) * (rank - 1))).astype(np.float16))
    if kind == "reshape":
        count = int(np.prod(shape))
        first = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
        return builder.single("reshape", x=x, shape=[first, count // first])
    if kind == "flatten":
        return builder.single("reshape", x=x, shape=[shape[0], -1])
    if kind == "transpose":
        return builder.single("transpose", x=x, perm=draw(st.permutations(range(rank))))
    if kind in ("mean", "largest", "softmax"):
        axis = draw(st.integers(0, rank - 1))
        if kind == "softmax":
            return builder.single("softmax", x=x, axis=axis)
        return builder.single("reduce_mean" if kind == "mean" else "reduce_max", x=x, axes=[axis], keep_dims=True)
    if kind == "linear":
        weight = rng.standard_normal((5, shape[-1])) / np.sqrt(shape[-1]) / 2
        return builder.single("linear", x=x, weight=weight.astype(np.float16))
    if kind == "pad":
        return builder.single("pad", x=x, pad=[draw(st.integers(0, 2)) for _ in range(2 * rank)],
                              constant_val=np.float16(0.5))
    if kind == "slice":
        begin = [draw(st.integers(0, extent - 1)) for extent in shape]
        end = [draw(st.integers(start + 1, extent)) for start, extent in zip(begin, shape, strict=True)]
        return builder.single("slice_by_index", x=x, begin=begin, end=end)
    if kind == "matmul" and rank > 1:
        y = builder.single("matmul", x=x, y=x, transpose_y=True)
        return builder.single("mul", x=y, y=np.float16(1 / shape[-1]))
    if kind in ("pool", "conv"):
        if rank != 4 or min(shape[2:]) < 2:
            return builder.single("relu", x=x)
        if kind == "pool":
            return builder.single("max_pool", x=x, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
        weight = rng.standard_normal((4, shape[1], 2, 2)) / np.sqrt(16 * shape[1])
        return builder.single("conv", x=x, weight=weight.astype(np.float16), pad_type="same")
    if kind == "matmul":
        return builder.single("relu", x=x)
    same = [v for v in values if v.shape == shape]
    y = draw(st.sampled_from(same))
    if kind == "concat":
        return builder.single("concat", values=(x, y), axis=draw(st.integers(0, rank - 1)))
    return builder.single(kind, x=x, y=y)


@st.composite
def graphs(draw: Callable[..., Any], shapes: Sequence[tuple[int, ...]], steps: int) -> Graph:
    """A graph of up to `steps` nodes on two inputs of one of the shapes."""
    builder = GraphBuilder()
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shape = draw(st.sampled_from(shapes))
    values = [builder.input(name, "fp16", shape) for name in ("a", "b")]
    for _ in range(draw(st.integers(1, steps))):
        value = grow(draw, builder, values, rng)
        if value.type.elements <= 4 * np.prod(shape):
            values.append(value)
    chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique_by=id))
    return builder.finish({f"out{i}": value for i, value in enumerate([*chosen, values[-1]])})
