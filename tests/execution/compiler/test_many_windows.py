"""Attention within many windows: images cut into windows and put together again, and the products of all of them."""

import numpy as np
import pytest

from openane.compiler import compile
from openane.compiler.recipes import data_movement
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.optimisation import with_level

TURNED = [((64, 3, 5, 4), (64, 15, 4)), ((64, 3, 6), (64, 18)), ((40, 4, 3, 7), (4, 10, 12, 7)), ((96, 2, 9), (96, 18)),
          ((8, 9, 24), (8, 9, 3, 8)), ((45, 24), (45, 2, 12)), ((128, 4, 3), (32, 48)), ((33, 6, 10), (33, 15, 4))]
"""Reshapes that keep at least a row of elements apart, and are no view where rows begin aligned."""


def reshaped(shape, wanted):
    build = GraphBuilder()
    x = build.add("relu", x=build.input("input", "fp16", shape))
    return build.finish({"y": build.add("add", x=build.add("reshape", x=x, shape=wanted),
                                        y=np.ones(wanted[-1], np.float16))})


@pytest.mark.parametrize(("shape", "wanted"), TURNED)
def test_reshapes_in_many_pieces_are_turned(execute, monkeypatch, shape, wanted):
    monkeypatch.setattr(data_movement, "CELL_BYTES", 1 << 10)
    monkeypatch.setattr(data_movement, "CELL_SHARE", 1 << 14)
    monkeypatch.setattr(data_movement, "MANY_PIECES", 1)
    graph = reshaped(shape, wanted)
    model = compile(graph, precision="as-is")
    assert len(model.program.tasks) < 10
    inputs = {"input": np.random.default_rng(0).integers(-99, 99, shape).astype(np.float16)}
    np.testing.assert_array_equal(execute(model, inputs, "exact")["y"], evaluate(graph, inputs)["y"])


def windows(side, size, heads, width, level=0):
    """An image [1, heads * width, side, side] that attends to itself within windows of size x size, as Twins does."""
    build, count = GraphBuilder(), side // size
    apart = (heads, width, count, size, count, size)
    image = build.input("image", "fp16", (1, heads * width, side, side))
    rows = build.add("transpose", x=build.add("reshape", x=build.add("relu", x=image), shape=apart),
                     perm=(2, 4, 0, 3, 5, 1))
    x = build.add("reshape", x=rows, shape=(count * count * heads, size * size, width))
    scores = build.single("softmax", x=build.single("matmul", x=x, y=x, transpose_y=True), axis=-1)
    mixed = build.add("reshape", x=build.single("matmul", x=scores, y=x), shape=[apart[i] for i in (2, 4, 0, 3, 5, 1)])
    whole = build.add("transpose", x=mixed, perm=(2, 5, 0, 3, 1, 4))
    whole = build.add("reshape", x=whole, shape=(1, heads * width, side, side))
    weight = np.eye(heads * width, dtype=np.float16)[:, :, None, None]
    return with_level(build.finish({"y": build.single("conv", x=whole, weight=weight)}), level)


def test_windows_are_multiplied_together_at_every_level(compare):
    graph = windows(35, 7, 4, 16)
    assert len(compile(graph).program.tasks) < 60  # one by one, two products of 100 matrices
    compare(graph, low=-1, high=1, absolute=2e-2, relative=2e-2)


def test_windows_become_an_image_in_few_tasks():
    assert len(compile(windows(56, 7, 4, 64)).program.tasks) < 60


def test_heads_of_one_window_are_multiplied_as_in_records():
    model = compile(windows(7, 7, 16, 16))
    assert len(model.program.tasks) > 32
