"""Softmax, layer norm, reductions and divisions as Apple's compiler builds them: which operations, and what they
compute in either arithmetic, whatever the shape."""

from math import prod

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from openane.chips import get_chip
from openane.compiler import compile
from openane.engine import Space, sources
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

CHIP = get_chip("h13")
SCRATCH = 3
LARGEST_SUM = 20000
EXTENTS = st.lists(st.sampled_from([1, 2, 3, 8, 17, 40]), min_size=1, max_size=5).map(tuple).filter(
    lambda extents: prod(extents) <= LARGEST_SUM)
SHORT = settings(max_examples=30, deadline=None)

PLANES = ["ChannelMaximum", "Elementwise", "PassThrough", "Convolution", "Elementwise"]
ROWS = ["Reduction", "Elementwise", "PassThrough", "Reduction", "Elementwise"]
STATISTICS = ["Reduction", "Reduction", "GainOffset"]

# Task lists of recorded programs: operation, shape, settings, kinds in order.
LISTS = [
    ("softmax", (1, 64, 8, 8), {"axis": 1}, PLANES),
    ("softmax", (1, 64, 8, 8), {"axis": 2}, PLANES),
    ("softmax", (1, 64, 8, 8), {"axis": -1}, ["PassThrough", *ROWS]),
    ("softmax", (1, 64, 1, 1), {"axis": 1}, PLANES),
    ("softmax", (1, 8, 1, 64), {"axis": -1}, ROWS),
    ("layer_norm", (1, 64, 8, 8), {"axes": [1, 2, 3]}, STATISTICS),
    ("layer_norm", (1, 64, 8, 8), {"axes": [2, 3]}, STATISTICS),
    ("layer_norm", (1, 64, 256), {"axes": [-1]}, STATISTICS),
    ("layer_norm", (1, 64, 8, 8), {"axes": [3]},
     ["PassThrough", "Reduction", "Elementwise", "Reduction", "Elementwise"]),
    ("layer_norm", (1, 64, 8, 8), {"axes": [1]},
     ["PassThrough", "Reduction", "Elementwise", "PassThrough", "Reduction", "Elementwise"]),
    ("layer_norm", (1, 64, 1, 1), {"axes": [1]}, ["Elementwise", *STATISTICS, "Elementwise"]),
    ("reduce_sum", (1, 64, 8, 8), {"axes": [1]}, ["PassThrough", "Reduction"]),
    ("reduce_max", (1, 64, 8, 8), {"axes": [1]}, ["ChannelMaximum"]),
    ("reduce_max", (1, 64, 8, 8), {"axes": [2]}, ["PassThrough", "Reduction", "PassThrough"]),
    ("reduce_mean", (1, 64, 8, 8), {"axes": [3]}, ["Reduction"]),
    ("reduce_sum", (1, 64, 8, 8), {"axes": [1, 2, 3]}, ["Reduction"]),
    ("real_div", (1, 64, 1, 1), {"y": 0.5}, ["PassThrough", "GainOffset"]),
]


def operations(graph):
    return [CHIP.operation(task.words) for task in compile(graph).program.tasks]


@pytest.mark.parametrize(("op", "shape", "operands", "kinds"), LISTS)
def test_task_lists_are_apples(single, op, shape, operands, kinds):
    held = {"keep_dims": True} if op.startswith("reduce") else {"epsilon": 1e-5} if op == "layer_norm" else {}
    found = operations(single(op, shape, **operands, **held))
    assert [type(operation).__name__ for operation in found] == kinds
    used = [access for operation in found for access in (*sources(operation), operation.result)]
    assert not any(a.space is Space.MEMORY and a.slot == SCRATCH for a in used), "small intermediates stay in L2"


def close(graph, arithmetic, execute, relative, absolute):
    rng = np.random.default_rng(3)
    inputs = {v.name: rng.uniform(0.5, 3.0, v.shape).astype(np.float16) for v in graph.inputs}
    found, wanted = execute(compile(graph), inputs, arithmetic), evaluate(graph, inputs)
    for name, expected in wanted.items():
        wide = expected.astype(np.float64)
        np.testing.assert_allclose(found[name], wide, rtol=relative, atol=absolute, err_msg=f"{name} ({arithmetic})")


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@SHORT
@given(shape=EXTENTS, data=st.data())
def test_softmax_along_any_axis(execute, single, arithmetic, shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    close(single("softmax", shape, axis=axis), arithmetic, execute, 1e-2, 3e-3)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@SHORT
@given(shape=EXTENTS, data=st.data())
def test_layer_norm_over_any_axes(execute, single, arithmetic, shape, data):
    """Elements of standard deviation about 0.7 around 1.75: a mean off by its rounding moves results by 2e-3."""
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True).map(sorted))
    close(single("layer_norm", shape, axes=axes, epsilon=1e-2), arithmetic, execute, 1e-2, 4e-2)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@SHORT
@given(shape=EXTENTS, data=st.data(), op=st.sampled_from(["sum", "mean", "max", "min"]), keep=st.booleans())
def test_reductions_over_any_axes(execute, single, arithmetic, shape, data, op, keep):
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True).map(sorted))
    close(single(f"reduce_{op}", shape, axes=axes, keep_dims=keep), arithmetic, execute, 4e-3, 1e-3)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@SHORT
@given(shape=EXTENTS, divisor=st.sampled_from([0.5, 3.0, -7.0, 100.0]))
def test_divisions(execute, arithmetic, shape, divisor):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", shape), builder.input("y", "fp16", shape)
    scaled = builder.single("real_div", x=x, y=divisor)
    graph = builder.finish({"scaled": scaled, "ratio": builder.single("real_div", x=x, y=y)})
    close(graph, arithmetic, execute, 4e-3, 1e-4)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@SHORT
@given(shape=EXTENTS)
def test_powers_of_two_tensors(execute, arithmetic, shape):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", shape), builder.input("y", "fp16", shape)
    graph = builder.finish({"power": builder.single("pow", x=x, y=y)})
    close(graph, arithmetic, execute, 1e-2, 1e-3)


def test_powers_multiply_in_the_neural_engine():
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (1, 64, 8, 8)), builder.input("y", "fp16", (1, 64, 8, 8))
    found = operations(builder.finish({"power": builder.single("pow", x=x, y=y)}))
    assert [type(operation).__name__ for operation in found] == ["PassThrough", "PassThrough", "ChannelProduct"]


def test_large_softmax_and_norms_leave_the_input_where_it_is(single):
    """Beyond what L2 takes nothing is copied first."""
    for op, settings_ in (("softmax", {"axis": -1}), ("layer_norm", {"axes": [3], "epsilon": 1e-5})):
        assert len(operations(single(op, (1, 16, 300, 300), **settings_))) < 6
