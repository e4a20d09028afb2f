"""Convolutions of every kernel, stride, dilation, padding, grouping and size, against the reference."""


import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13 import smaller

from openane.chips import get_chip
from openane.compiler import compile
from openane.engine import Convolution
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def convolution(shape, outputs, kernel, groups=1, after=None, op="conv", bias=True, seed=0, **operands):
    """A graph of one convolution with random weights whose results stay near 1."""
    rng = np.random.default_rng(seed)
    inputs = shape[1] // groups
    extents = (shape[1], outputs // groups) if op == "conv_transpose" else (outputs, inputs)
    weight = rng.standard_normal((*extents, *kernel)) / np.sqrt(inputs * np.prod(kernel))
    builder = GraphBuilder()
    x = builder.input("x", "fp16", shape)
    vector = rng.standard_normal(outputs).astype(np.float16) if bias else None
    y = builder.single(op, x=x, weight=weight.astype(np.float16), bias=vector, groups=groups, **operands)
    y = builder.single(after, x=y) if after else y
    return builder.finish({"y": y})


def operations(model):
    return [get_chip("h13").operation(task.words) for task in model.program.tasks]


@FEW
@given(data=st.data(), rank=st.integers(1, 3), batch=st.integers(1, 2), groups=st.sampled_from([1, 1, 1, 2, 5]),
       channels=st.integers(1, 3), multiple=st.integers(1, 3), after=st.sampled_from([None, "relu", "tanh"]),
       bias=st.booleans(), seed=st.integers(0, 99), pad_type=st.sampled_from(["valid", "same", "same_lower", "custom"]))
def test_any_window(compare, data, rank, batch, groups, channels, multiple, after, bias, seed, pad_type):
    kernel = data.draw(st.tuples(*[st.integers(1, 5)] * rank))
    dilations = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    strides = data.draw(st.tuples(*[st.integers(1, 5)] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    extents = [data.draw(st.integers(r, r + 8)) for r in reach]
    pad = data.draw(st.lists(st.integers(0, 4), min_size=2 * rank, max_size=2 * rank))
    graph = convolution((batch, channels * groups, *extents), groups * multiple, kernel, groups, after, bias=bias,
                        seed=seed, strides=list(strides), dilations=list(dilations), pad_type=pad_type,
                        pad=pad if pad_type == "custom" else None)
    compare(graph, seed, absolute=6e-3, relative=4e-3)


@pytest.mark.parametrize(("shape", "kernel", "settings"), [
    ((1, 2, 200), (77,), {}), ((1, 2, 200), (40,), {"strides": [2], "pad_type": "same"}),
    ((1, 3, 50, 6), (40, 3), {"pad_type": "same"}), ((1, 2, 6, 80), (2, 33), {"pad_type": "same_lower"}),
    ((2, 2, 70, 70), (35, 36), {}), ((1, 2, 120), (3,), {"dilations": [50]}),
    ((1, 3, 40, 41), (3, 3), {"dilations": [9, 12], "pad_type": "same"}),
    ((1, 4, 30, 30), (3, 3), {"dilations": [7, 7], "pad_type": "same", "groups": 4}),
    ((1, 2, 90), (4,), {"dilations": [25], "strides": [7]}),
    ((1, 2, 20, 20), (3, 3), {"pad_type": "custom", "pad": [40, 2, 0, 37]}),
])
def test_kernels_beyond_the_field(compare, shape, kernel, settings):
    compare(convolution(shape, 4, kernel, **settings), absolute=6e-3, relative=4e-3)


def test_patches_are_one_product(compare):
    model = compare(convolution((1, 3, 64, 64), 32, (16, 16), strides=[16, 16]), absolute=6e-3)
    assert len(model.program.tasks) == 3


@pytest.mark.parametrize(("shape", "kernel", "settings", "tasks"), [
    ((3, 8, 6, 7), (3, 3), {"groups": 8, "pad_type": "same"}, 1), ((3, 8, 6, 7), (3, 3), {"groups": 4}, 1),
    ((1, 8, 5, 6, 7), (1, 3, 3), {"groups": 8}, 1), ((1, 8, 5, 6, 7), (3, 3, 3), {}, 1),
    ((2, 8, 9, 9), (3, 3), {"strides": [2, 2]}, 1), ((1, 8, 9, 9), (3, 3), {"strides": [2, 2], "groups": 8}, 2),
    ((1, 8, 9), (3,), {"strides": [2]}, 1), ((1, 8, 20, 20), (3, 3), {"dilations": [2, 2]}, 1),
    ((1, 3, 16, 16), (4, 4), {"strides": [4, 4]}, 3), ((1, 8, 9, 9), (1, 1), {"strides": [3, 3]}, 3),
])
def test_as_few_tasks_as_it_takes(compare, shape, kernel, settings, tasks):
    model = compare(convolution(shape, 8, kernel, **settings), absolute=6e-3, relative=4e-3)
    assert len(model.program.tasks) == tasks


@pytest.mark.parametrize(("shape", "outputs", "kernel", "settings"), [
    ((1, 1, 20000), 2, (5,), {"pad_type": "same"}), ((1, 1, 1, 17000), 1, (1, 4), {"strides": [1, 2]}),
    ((1, 1, 16500, 2), 2, (3, 1), {"pad_type": "same", "strides": [3, 1]}), ((1, 2, 16500), 2, (1,), {}),
    ((9000, 1, 1, 1), 2, (1, 1), {}), ((1, 9000, 1, 2), 2, (1, 1), {}), ((1, 2, 1, 2), 9000, (1, 1), {}),
    ((1, 9000, 2, 2), 9000, (2, 2), {"groups": 9000}), ((1, 40000, 1, 1), 3, (1, 1), {}),
    ((1, 4000, 12, 12), 2, (3, 3), {"pad_type": "same"}), ((1, 150, 40, 4), 2, (31, 3), {"pad_type": "same"}),
    ((1, 70000, 1, 1), 2, (1, 1), {"groups": 2}),
    ((1, 33000, 1, 1), 257, (1, 1), {}), ((1, 1024, 3, 3), 1024, (3, 3), {"pad_type": "same"}),
])
def test_sizes_beyond_fields_and_memories(compare, shape, outputs, kernel, settings):
    compare(convolution(shape, outputs, kernel, **settings), absolute=6e-3, relative=6e-3)


@FEW
@given(data=st.data(), rank=st.integers(1, 3), batch=st.integers(1, 2), groups=st.sampled_from([1, 1, 2, 4]),
       channels=st.integers(1, 3), each=st.integers(1, 3), after=st.sampled_from([None, "relu", "tanh"]),
       bias=st.booleans(), seed=st.integers(0, 99), pad_type=st.sampled_from(["valid", "same", "custom"]))
def test_transposed_convolutions(compare, data, rank, batch, groups, channels, each, after, bias, seed, pad_type):
    kernel = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    strides = data.draw(st.tuples(*[st.integers(1, 4)] * rank))
    dilations = data.draw(st.tuples(*[st.integers(1, 3)] * rank))
    extents = data.draw(st.tuples(*[st.integers(1, 7)] * rank))
    pad = [data.draw(st.integers(0, ((e - 1) * s + (k - 1) * d) // 2))
           for e, s, k, d in zip(extents, strides, kernel, dilations, strict=True) for _ in range(2)]
    graph = convolution((batch, channels * groups, *extents), each * groups, kernel, groups, after, "conv_transpose",
                        bias, seed, strides=list(strides), dilations=list(dilations), pad_type=pad_type,
                        pad=pad if pad_type == "custom" else None)
    compare(graph, seed, absolute=8e-3, relative=4e-3)


def test_transposed_convolutions_of_stated_shape(compare):
    for extents in ([9, 10], [10, 9], [12, 11]):
        compare(convolution((1, 3, 5, 5), 4, (3, 3), op="conv_transpose", strides=[2, 2], pad_type="custom",
                            pad=[1, 1, 1, 1], output_shape=[1, 4, *extents]), absolute=6e-3)


@pytest.mark.parametrize("bias", [False, True])
def test_weights_from_the_program(compare, bias):
    builder = GraphBuilder()
    x, w = builder.input("x", "fp16", (2, 20, 5, 6)), builder.input("w", "fp16", (33, 20, 1, 1))
    y = builder.single("conv", x=x, weight=w, bias=np.arange(33).astype(np.float16) / 16 if bias else None)
    compare(builder.finish({"y": y}), absolute=2e-2)


@pytest.mark.parametrize(("op", "weight", "settings"), [
    ("conv", (4, 20, 3, 1), {}), ("conv", (6, 10, 3, 3), {"groups": 2, "pad_type": "same", "dilations": [2, 1]}),
    ("conv", (20, 1, 2, 3), {"groups": 20, "strides": [2, 1]}), ("conv_transpose", (20, 3, 2, 2), {"strides": [2, 2]}),
    ("conv_transpose", (20, 2, 3, 3), {"groups": 2, "pad_type": "custom", "pad": [1, 1, 1, 1]}),
])
def test_kernels_from_the_program(compare, op, weight, settings):
    builder = GraphBuilder()
    x, w = builder.input("x", "fp16", (2, 20, 5, 6)), builder.input("w", "fp16", weight)
    y = builder.single(op, x=x, weight=builder.single("tanh", x=w), **settings)
    compare(builder.finish({"y": y}), absolute=2e-2)


@pytest.mark.parametrize(("shape", "kernel", "settings"), [
    ((2, 6, 9, 10), (3, 3), {"strides": [2, 2], "pad_type": "same"}),
    ((1, 6, 9, 10), (3, 3), {"strides": [2, 2], "groups": 6}),
    ((1, 6, 9, 10), (3, 3), {"strides": [2, 2], "groups": 2}),
    ((1, 6, 9, 10), (5, 4), {"strides": [1, 4], "dilations": [2, 1]}), ((1, 2, 90), (40,), {}),
    ((1, 2, 4, 5, 6), (2, 3, 2), {"pad_type": "same"}), ((1, 4, 30, 30), (3, 3), {"dilations": [7, 7]}),
])
def test_exact_arithmetic_agrees(execute, shape, kernel, settings):
    graph = convolution(shape, 6, kernel, **settings)
    model = compile(graph)
    inputs = {"x": np.random.default_rng(1).uniform(-2, 2, shape).astype(np.float16)}
    wanted = evaluate(graph, inputs)["y"]
    assert np.abs(execute(model, inputs, "exact")["y"] - wanted).max() <= 6e-3 + 4e-3 * np.abs(wanted).max()


@pytest.mark.parametrize(("changes", "shape", "outputs", "kernel", "settings"), [
    ({"kernel_memory": 1 << 12}, (1, 20, 6, 6), 64, (3, 3), {}),
    ({"kernel_memory": 1 << 10}, (1, 40, 2, 2), 70, (1, 1), {}),
    ({"kernel_memory": 1 << 13}, (1, 40, 6, 6), 40, (3, 3), {"groups": 20}),
    ({"kernel_memory": 1 << 12}, (1, 70, 6, 6), 70, (5, 5), {"groups": 70}),
    ({"width": 64, "height": 40}, (2, 3, 100, 150), 4, (3, 5), {"pad_type": "same"}),
    ({"width": 96, "height": 96}, (1, 3, 130, 240), 4, (3, 3), {"pad_type": "same", "strides": [2, 2]}),
    ({"kernel_width": 3, "kernel_height": 2}, (1, 3, 11, 12), 4, (5, 7), {"pad_type": "same"}),
    ({"channels": 64, "groups": 8}, (20, 100, 3, 3), 130, (2, 2), {}),
    ({"channels": 64, "groups": 8}, (2, 128, 3, 3), 128, (2, 2), {"groups": 64}),
])
def test_smaller_machines(monkeypatch, compare, changes, shape, outputs, kernel, settings):
    """The same convolutions for a chip of smaller fields and memories: everything is cut by what `Limits` says."""
    limits = smaller(monkeypatch, **changes)
    model = compare(convolution(shape, outputs, kernel, **settings), absolute=8e-3, relative=6e-3)
    for operation in operations(model):
        if isinstance(operation, Convolution):
            extents = operation.source.shape
            assert extents[0] <= limits.groups
            assert extents[1] <= limits.channels
            assert extents[3] <= limits.height
            assert extents[4] <= limits.width
            assert operation.coefficients.size <= 2 * limits.kernel_memory \
                if operation.coefficients else True
