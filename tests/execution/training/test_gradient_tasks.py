"""How many tasks joint graphs take: gradients of weights are one product each, however many images there are."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradients import hold_on_engine

import openane as ane
from openane.chips import get_chip
from openane.engine import MatrixProduct
from openane.ops.build import GraphBuilder
from openane.training.gradient import gradient
from openane.training.gradient_losses import mean_squared_error

RNG = np.random.default_rng(0)
LAYERS = {
    "conv 3x3": ("conv", (8, 4, 3, 3), {"pad_type": "same"}),
    "conv 3x3, stride 2": ("conv", (8, 4, 3, 3), {"strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1]}),
    "conv 1x1": ("conv", (8, 4, 1, 1), {}),
    "conv, groups": ("conv", (8, 2, 3, 3), {"groups": 2, "pad_type": "same"}),
    "conv, depthwise": ("conv", (4, 1, 3, 3), {"groups": 4, "pad_type": "same"}),
    "conv_transpose": ("conv_transpose", (4, 8, 3, 3), {"pad_type": "custom", "pad": [1, 1, 1, 1]}),
}


def draws(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float16)


def joint(name, images):
    """Forward and backward pass of a layer on so many images."""
    op, shape, operands = LAYERS[name]
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (images, 4, 8, 8))
    y = builder.single(op, x=x, weight=builder.constant(draws(*shape), "weight"), **operands)
    loss = mean_squared_error(builder, y, builder.input("target", "fp16", y.shape))
    return gradient(builder.finish({"loss": loss}), "loss", ["x", "weight"])


def products(model):
    chip = get_chip(model.target)
    operations = [chip.operation(task.words) for program in model.programs for task in program.tasks]
    return sum(isinstance(operation, MatrixProduct) for operation in operations)


@pytest.mark.parametrize("name", LAYERS)
def test_tasks_do_not_grow_with_the_batch(name):
    few, many = (ane.compile(joint(name, images)) for images in (3, 24))
    assert products(few) == products(many)
    tasks = [sum(len(program.tasks) for program in model.programs) for model in (few, many)]
    assert abs(tasks[0] - tasks[1]) <= 2  # a mean over a power of two of numbers may be taken in a neighbour's task


@pytest.mark.parametrize(("name", "count"), [("conv 1x1", 3), ("conv 3x3", 4)])
def test_a_convolution_is_three_products(name, count):
    """Forward, and the gradients by x and by the weight; the 36 rows that a 3x3 kernel adds to x are 32 and 4."""
    assert products(ane.compile(joint(name, 16))) == count


def test_rows_of_a_batch_meet_one_weight_together():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (8, 64, 64))
    y = builder.single("linear", x=x, weight=builder.constant(draws(64, 64), "weight"))
    loss = mean_squared_error(builder, y, builder.input("target", "fp16", y.shape))
    assert products(ane.compile(gradient(builder.finish({"loss": loss}), "loss", ["x", "weight"]))) == 3


@pytest.mark.parametrize("name", LAYERS)
def test_right_on_the_engine(name):
    op, shape, operands = LAYERS[name]
    hold_on_engine({"x": draws(3, 4, 7, 6)}, lambda b, v: b.single(op, **v, **operands), {"weight": draws(*shape)})


@pytest.mark.parametrize("spatial", [(9,), (3, 4, 5)])
def test_other_dimensions_on_the_engine(spatial):
    weight = draws(6, 4, *(2,) * len(spatial))
    hold_on_engine({"x": draws(2, 4, *spatial)}, lambda b, v: b.single("conv", **v, pad_type="same"),
                   {"weight": weight})


@pytest.mark.parametrize(("x", "y", "turned"), [
    ((5, 12, 32), (32, 24), False), ((2, 3, 7, 20), (40, 20), True), ((1, 8, 16), (6, 16, 40), False),
    ((6, 4, 24, 16), (6, 4, 24, 16), True), ((5, 4, 32, 8), (5, 4, 8, 40), False),
])
def test_batches_of_products(x, y, turned):
    """Shared operands, and many matrices that are turned together."""
    builder = GraphBuilder()
    values = {"x": draws(*x), "y": draws(*y)}
    inputs = {name: builder.input(name, "fp16", array.shape) for name, array in values.items()}
    graph = builder.finish({"z": builder.single("matmul", **inputs, transpose_y=turned)})
    right = np.swapaxes(values["y"], -1, -2) if turned else values["y"]
    expected = values["x"].astype(np.float64) @ right.astype(np.float64)
    assert np.abs(ane.run(ane.compile(graph), values)["z"] - expected).max() <= 2e-3 * np.abs(expected).max()
