"""Tensors of six to eight dimensions between inputs and outputs of at most five: operations on them are written with
fewer dimensions, and compute the same."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.program.verify import verify

Build = Callable[[GraphBuilder, Value], Value]
SHAPE = (2, 3, 2, 4, 1, 2, 3)


def wide(shape: tuple[int, ...], build: Build) -> Graph:
    """What is built on a tensor of `shape`, from and to vectors."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (prod(shape),))
    made = build(builder, builder.single("reshape", x=x, shape=np.array(shape, np.int32)))
    return builder.finish({"y": builder.single("reshape", x=made, shape=np.array([made.type.elements], np.int32))})


def held(graph: Graph, tolerance: float = 0.0) -> None:
    x = np.random.default_rng(3).uniform(-2, 2, graph.inputs[0].shape).astype(np.float16)
    model = ane.compile(graph, allow_host=False)
    for program in model.programs:
        verify(program)
    wanted = evaluate(graph, {"x": x})["y"]
    np.testing.assert_allclose(ane.run(model, {"x": x})["y"], wanted, rtol=tolerance, atol=tolerance)


@settings(max_examples=40)
@given(st.data())
def test_any_transpose(data: st.DataObject) -> None:
    rank = data.draw(st.integers(6, 8))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank)))
    order = data.draw(st.permutations(range(rank)))
    held(wide(shape, lambda builder, x: builder.single("transpose", x=x, perm=np.array(order, np.int32))))


def weight(*shape: int) -> np.ndarray:
    return np.random.default_rng(4).uniform(-1, 1, shape).astype(np.float16)


EXACT: dict[str, Build] = {
    "relu": lambda b, x: b.single("relu", x=x),
    "add": lambda b, x: b.single("add", x=x, y=weight(4, 1, 2, 3)),
    "product": lambda b, x: b.single("mul", x=x, y=weight(3, 2, 1, 1, 2, 3)),
    "two": lambda b, x: b.single("sub", x=x, y=b.single("relu", x=x)),
    "select": lambda b, x: b.single("select", cond=b.single("greater", x=x, y=np.float16(0)), a=x, b=weight(2, 3)),
    "concat": lambda b, x: b.single("concat", values=(x, b.single("relu", x=x)), axis=np.int32(3)),
    "tile": lambda b, x: b.single("tile", x=x, reps=np.array([1, 2, 1, 1, 3, 1, 1], np.int32)),
    "slice": lambda b, x: b.single("slice_by_index", x=x, begin=[0, 1, 0, 3, 0, 0, 0], end=[2, 3, 2, -5, 1, 2, 3],
                                   stride=[1, 1, 1, -2, 1, 1, 1]),
    "taken": lambda b, x: b.single("slice_by_index", x=x, begin=[0, 0, 0, 2, 0, 0, 0], end=[2, 3, 2, 3, 1, 2, 3],
                                   squeeze_mask=[False] * 3 + [True] + [False] * 3),
    "pad": lambda b, x: b.single("pad", x=x, pad=[0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]),
    "reflected": lambda b, x: b.single("pad", x=x, pad=[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0], mode="reflect"),
    "backwards": lambda b, x: b.single("reverse", x=x, axes=[1, 2, 5]),
    "picked": lambda b, x: b.single("gather", x=x, indices=[[2, 0], [1, 1]], axis=1),
    "where": lambda b, x: b.single("cast", x=b.single("reduce_argmax", x=x, axis=3), dtype="fp16"),
    "largest": lambda b, x: b.add("topk", x=x, k=2, axis=3)[0],
    "maximum": lambda b, x: b.single("reduce_max", x=x, axes=[2, 3], keep_dims=True),
    "views": lambda b, x: b.single("transpose", x=b.single("squeeze", x=b.single("expand_dims", x=x, axes=[0]),
                                                           axes=[0, 5]), perm=[5, 1, 3, 0, 2, 4]),
}
CLOSE: dict[str, Build] = {
    "softmax": lambda b, x: b.single("softmax", x=x, axis=-3),
    "running": lambda b, x: b.single("cumsum", x=x, axis=3),
    "mean": lambda b, x: b.single("reduce_mean", x=x, axes=[0, 5, 6]),
    "norm": lambda b, x: b.single("layer_norm", x=x, axes=[5, 6], gamma=weight(2, 3), beta=weight(2, 3)),
    "product": lambda b, x: b.single("matmul", x=x, y=x, transpose_y=True),
    "weights": lambda b, x: b.single("matmul", x=x, y=weight(3, 5)),
    "batches": lambda b, x: b.single("matmul", x=x, y=weight(4, 1, 3, 5)),
}


@pytest.mark.parametrize("name", EXACT)
def test_what_moves_and_compares(name: str) -> None:
    held(wide(SHAPE, EXACT[name]), 1e-3)


@pytest.mark.parametrize("name", CLOSE)
def test_what_sums(name: str) -> None:
    held(wide(SHAPE, CLOSE[name]), 1e-2)


def test_windows_are_one_move() -> None:
    """Windows of 7 by 7 of an image, as attention in windows takes them: one transpose of four dimensions."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 14, 21, 16))
    apart = builder.single("reshape", x=x, shape=np.array([1, 2, 7, 3, 7, 16], np.int32))
    windows = builder.single("transpose", x=apart, perm=np.array([0, 1, 3, 2, 4, 5], np.int32))
    y = builder.single("reshape", x=windows, shape=np.array([6, 49, 16], np.int32))
    other = builder.single("reshape", x=x, shape=np.array([2, 7, 3, 112], np.int32))
    moved = builder.single("transpose", x=other, perm=np.array([0, 2, 1, 3], np.int32))
    z = builder.single("reshape", x=moved, shape=np.array([6, 49, 16], np.int32))
    many, few = (ane.compile(builder.finish([made])) for made in (y, z))
    assert len(many.program.tasks) == len(few.program.tasks)
