"""reduce_argmax, reduce_argmin, topk, argsort: exact, of equal elements the first."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.errors import UnsupportedError
from openane.ops.build import GraphBuilder

FEW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
EXTENTS = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
EXACT = {"absolute": 0, "relative": 0}


def numbers(shape, seed, ties):
    rng = np.random.default_rng(abs(seed))
    return (rng.integers(-2, 3, shape) if ties else rng.uniform(-60000, 60000, shape)).astype(np.float16)


def graph_of(op, shape, **operands):
    builder = GraphBuilder()
    made = builder.add(op, x=builder.input("x", "fp16", shape), **operands)
    return builder.finish({f"r{i}": v for i, v in enumerate(made if isinstance(made, tuple) else (made,))})


@FEW
@given(shape=EXTENTS, data=st.data(), op=st.sampled_from(["reduce_argmax", "reduce_argmin"]), keep=st.booleans(),
       ties=st.booleans(), dtype=st.sampled_from(["int32", "uint16"]))
def test_positions_of_extremes(hold, shape, data, op, keep, ties, dtype):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    graph = graph_of(op, shape, axis=axis, keep_dims=keep, output_dtype=dtype)
    hold(graph, {"x": numbers(shape, axis, ties)}, **EXACT)


def test_two_thousand_and_forty_eight_positions(hold):
    data = np.zeros((3, 2048), np.float16)
    data[0, 2047], data[1, 1025], data[2, 0] = 1, 6e-8, -6e-8
    hold(graph_of("reduce_argmax", (3, 2048)), {"x": data}, **EXACT)


def test_positions_can_be_read_by_other_operations(hold):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4, 9))
    found = builder.single("cast", x=builder.single("reduce_argmax", x=x, axis=1, keep_dims=True), dtype="fp16")
    hold(builder.finish({"y": builder.single("add", x=found, y=x)}))


@pytest.mark.parametrize(("op", "operands"), [("reduce_argmin", {}), ("topk", {"k": 3}), ("argsort", {})])
def test_integers_are_looked_through_too(hold, op, operands):
    builder = GraphBuilder()
    x = builder.input("x", "int32", (4, 9))
    made = builder.add(op, x=x, axis=1, **operands)
    graph = builder.finish({f"r{i}": v for i, v in enumerate(made if isinstance(made, tuple) else (made,))})
    hold(graph, {"x": np.random.default_rng(0).integers(-2048, 2049, (4, 9)).astype(np.int32)}, **EXACT)


@FEW
@given(shape=EXTENTS, data=st.data(), ascending=st.booleans(), ties=st.booleans(), indices=st.booleans())
def test_the_first_few_in_order(hold, shape, data, ascending, ties, indices):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.sampled_from([-1, 1, shape[axis]]))
    graph = graph_of("topk", shape, k=k, axis=axis, ascending=ascending, return_indices=indices)
    hold(graph, {"x": numbers(shape, axis, ties)}, **EXACT)


@FEW
@given(shape=EXTENTS, data=st.data(), ascending=st.booleans(), ties=st.booleans())
def test_sorting_short_axes(hold, shape, data, ascending, ties):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    hold(graph_of("argsort", shape, axis=axis, ascending=ascending), {"x": numbers(shape, axis, ties)}, **EXACT)


@pytest.mark.parametrize(("op", "operands", "sentence"), [
    ("reduce_argmax", {"axis": 1}, "at most 2048 positions"),
    ("topk", {"k": 3}, "at most 2048 positions"),
    ("topk", {"k": 33, "axis": 0}, "k must be at most 32"),
    ("argsort", {"axis": 0}, "at most 32 positions"),
])
def test_what_fp16_cannot_count(op, operands, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        compile(graph_of(op, (40, 2049), **operands))
