"""Evaluation for a part of the positions: what it makes of inputs that repeat themselves is a part of what the whole
makes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from openane.graph import Graph, Node
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.in_part import _shape_of, cut, evaluate_in_part

RNG = np.random.default_rng(4)
ROWS = 256
"""Positions, of which a quarter is looked at."""


def _in_part(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What is made of parts, by name of the value."""
    part = cut(graph, inputs)
    assert part is not None
    found: dict[str, np.ndarray] = {}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> bool:
        found.update({value.name: arrays[id(value)] for value in node.outputs})
        return True

    assert evaluate_in_part(graph, part, seen)
    return found


def _weight(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float16)


def _attention() -> Graph:
    """Rows that a convolution makes, one in front of them as in a classifier, attention in two heads, and a
    perceptron."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, ROWS))
    made = builder.single("conv", x=x, weight=_weight(16, 8, 1), pad_type="valid")
    rows = builder.single("transpose", x=made, perm=[0, 2, 1])
    rows = builder.single("add", x=rows, y=np.tile(_weight(1, ROWS // 4, 16), (1, 4, 1)))
    normed = builder.single("layer_norm", x=rows, axes=[-1], gamma=_weight(16), beta=_weight(16))
    heads = []
    for _ in range(3):
        projected = builder.single("linear", x=normed, weight=_weight(16, 16), bias=_weight(16))
        projected = builder.single("reshape", x=projected, shape=[1, ROWS, 2, 8])
        heads.append(builder.single("transpose", x=projected, perm=[0, 2, 1, 3]))
    scores = builder.single("matmul", x=heads[0], y=heads[1], transpose_y=True)
    shares = builder.single("softmax", x=builder.single("real_div", x=scores, y=3.0), axis=-1)
    mixed = builder.single("transpose", x=builder.single("matmul", x=shares, y=heads[2]), perm=[0, 2, 1, 3])
    rows = builder.single("add", x=rows, y=builder.single("reshape", x=mixed, shape=[1, ROWS, 16]))
    return builder.finish({"y": builder.single("gelu", x=rows), "shares": shares})


def test_rows_that_repeat_themselves_are_a_part_of_the_whole() -> None:
    graph = _attention()
    inputs = {"x": np.tile(RNG.standard_normal((1, 8, ROWS // 4)).astype(np.float32), 4)}
    whole, part = evaluate(graph, inputs), _in_part(graph, inputs)
    (y, shares) = graph.outputs
    assert part[y.name].shape == (1, ROWS // 4, 16)
    np.testing.assert_allclose(part[y.name], whole["y"][:, :ROWS // 4], rtol=1e-3, atol=1e-3)
    assert part[shares.name].shape == (1, 2, ROWS // 4, ROWS // 4)
    np.testing.assert_allclose(part[shares.name], whole["shares"][..., :ROWS // 4, :ROWS // 4], rtol=1e-3, atol=1e-6)


def test_images_are_cut_in_both_directions_and_joined_by_channels() -> None:
    """What a convolution without padding makes of the first rows and columns does not depend on the others; what asks
    for the whole is given it, repeated."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 128, 128))
    first = builder.single("conv", x=x, weight=_weight(8, 4, 3, 3), strides=[2, 2], pad_type="valid")
    second = builder.single("relu", x=builder.single("conv", x=x, weight=_weight(8, 4, 3, 3), strides=[2, 2],
                                                     pad_type="valid"))
    joined = builder.single("concat", values=(first, second), axis=1)
    pooled = builder.single("max_pool", x=joined, kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid")
    scaled = builder.single("mul", x=pooled, y=_weight(1, 16, 1, 1))
    flat = builder.single("reshape", x=scaled, shape=[1, 16, 31 * 31])
    backwards = builder.single("reverse", x=flat, axes=[2])
    graph = builder.finish({"scaled": scaled, "flat": flat, "y": backwards})
    inputs = {"x": RNG.standard_normal((1, 4, 128, 128)).astype(np.float32)}
    whole, part = evaluate(graph, inputs), _in_part(graph, inputs)
    assert part[scaled.name].shape == (1, 16, 15, 15)
    np.testing.assert_allclose(part[scaled.name], whole["scaled"][..., :15, :15], rtol=1e-4, atol=1e-5)
    assert part[flat.name].shape == (1, 16, 15 * 15)
    assert part[backwards.name].shape == (1, 16, 31 * 31)


def test_what_is_no_image_is_not_cut() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 512, 512))
    graph = builder.finish({"y": builder.single("linear", x=x, weight=_weight(4, 512))})
    assert cut(graph, {"x": np.zeros((1, 512, 512), np.float32)}) is None


@pytest.mark.parametrize(("positions", "left"), [
    ((127,), (127,)), ((128,), (32,)), ((400,), (80,)), ((512,), (80,)), ((3000,), (192,)), ((16000,), (1008,)),
    ((224, 224), (80, 80)), ((256, 256), (80, 80)), ((640, 64), (160, 64)), ((1024, 1024), (256, 256)),
])
def test_of_many_positions_a_smaller_share_is_left(positions, left) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 2, *positions))
    weight = _weight(2, 2, *(1 for _ in positions))
    graph = builder.finish({"y": builder.single("conv", x=x, weight=weight, pad_type="valid")})
    part = cut(graph, {"x": np.zeros((1, 2, *positions), np.float32)})
    assert (positions if part is None else part["x"].shape[2:]) == left


@pytest.mark.parametrize(("whole", "part", "made", "wanted"), [
    ((1, 8, 6, 6), (1, 8, 3, 3), (1, 8, 36), [1, 8, 9]),
    ((1, 8, 6, 6), (1, 8, 3, 3), (1, 288), None),           # channels become one dimension with positions
    ((1, 36, 16), (1, 9, 16), (1, 36, 2, 8), [1, 9, 2, 8]),
    ((1, 36, 16), (1, 9, 16), (1, 6, 6, 16), None),         # rows become an image
    ((1, 8, 6, 6), (1, 8, 3, 3), (1, 2, 4, 6, 6, 1), [1, 2, 4, 3, 3, 1]),
    ((6, 1, 4), (3, 1, 4), (1, 6, 4), [1, 3, 4]),
    ((6,), (3,), (6, 1), [3, 1]),
])
def test_shapes_of_parts(whole, part, made, wanted) -> None:
    assert _shape_of(whole, part, made) == (wanted and tuple(wanted))


@pytest.mark.parametrize("mode", ["EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION"])
def test_functions_and_norms_in_single_precision_are_about_what_the_references_make(mode: str) -> None:
    builder = GraphBuilder()
    made = builder.single("conv", x=builder.input("x", "fp16", (1, 8, ROWS)), weight=_weight(16, 8, 1),
                          pad_type="valid")
    rows = builder.single("transpose", x=builder.single("gelu", "curved", x=made, mode=mode), perm=[0, 2, 1])
    normed = builder.single("layer_norm", "normed", x=rows, axes=[-1], gamma=_weight(16), beta=_weight(16))
    graph = builder.finish({"curved": rows, "normed": normed})
    inputs = {"x": 2 * RNG.standard_normal((1, 8, ROWS)).astype(np.float16)}
    whole, part = evaluate(graph, inputs), _in_part(graph, inputs)
    np.testing.assert_allclose(part[rows.name], whole["curved"][:, :ROWS // 4], atol=1e-3)
    np.testing.assert_allclose(part[normed.name], whole["normed"][:, :ROWS // 4], atol=1e-2)


def test_norms_of_channels_are_those_of_the_whole_at_the_positions_that_are_left() -> None:
    builder = GraphBuilder()
    made = builder.single("conv", x=builder.input("x", "fp16", (1, 8, ROWS)), weight=_weight(16, 8, 1),
                          pad_type="valid")
    normed = builder.single("batch_norm", "normed", x=made, mean=_weight(16), variance=np.abs(_weight(16)) + 1,
                            gamma=_weight(16), beta=_weight(16))
    graph = builder.finish({"normed": normed})
    inputs = {"x": RNG.standard_normal((1, 8, ROWS)).astype(np.float16)}
    whole, part = evaluate(graph, inputs)["normed"], _in_part(graph, inputs)[normed.name]
    assert part.dtype == np.float32
    assert part.shape[2] < ROWS
    assert np.allclose(part, whole[:, :, :part.shape[2]], rtol=1e-5, atol=1e-6)
