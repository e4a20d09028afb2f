"""Where images are sampled: what constants do to computed places is done with all digits, where the image is read."""

from __future__ import annotations

import numpy as np
import pytest

import openane as ane
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.order import simplify

RANDOM = np.random.default_rng(9)
HEIGHT, WIDTH = 24, 400


def _sampled(made: GraphBuilder, x: Value, at: Value, corners: bool = True) -> Graph:
    return made.finish([made.single("resample", "y", x=x, coordinates=at, sampling_mode="bilinear",
                                    padding_mode="border", padding_value=0.0, align_corners=corners,
                                    coordinates_mode="normalized_minus_one_to_one")])


def _axis(made: GraphBuilder, places: Value, axis: int) -> Value:
    """One coordinate, from elements to -1 .. 1."""
    part = made.single("gather", x=places, indices=np.int32(axis), axis=3)
    part = made.single("mul", x=part, y=np.float16(2))
    part = made.single("real_div", x=part, y=np.float32((WIDTH, HEIGHT)[axis] - 1).astype(np.float16))
    return made.single("expand_dims", x=made.single("sub", x=part, y=np.float16(1)), axes=[3])


def _warped() -> Graph:
    """An image moved by a flow, as networks for video and for optical flow are exported."""
    made = GraphBuilder()
    x, flow = made.input("x", "fp16", (1, 2, HEIGHT, WIDTH)), made.input("flow", "fp16", (1, 2, HEIGHT, WIDTH))
    flow = made.single("transpose", x=made.single("relu", x=flow), perm=[0, 2, 3, 1])
    across, down = np.meshgrid(np.arange(WIDTH), np.arange(HEIGHT))
    places = made.single("add", x=np.stack([across, down], 2).astype(np.float16)[None], y=flow)
    at = made.single("concat", values=(_axis(made, places, 0), _axis(made, places, 1)), axis=3)
    return _sampled(made, x, at)


def test_a_flow_is_rounded_alone_and_not_with_the_grid_it_moves() -> None:
    graph = _warped()
    data = {"x": RANDOM.standard_normal((1, 2, HEIGHT, WIDTH)).astype(np.float16),
            "flow": RANDOM.uniform(-2, 2, (1, 2, HEIGHT, WIDTH)).astype(np.float16)}
    assert not {"add", "sub", "mul", "real_div"} & {node.op for node in simplify(graph).nodes}
    wanted = evaluate(graph, data)["y"].astype(np.float64)
    found = np.asarray(ane.run(ane.compile(graph, allow_host="lookups"), data)["y"], np.float64)
    assert np.linalg.norm(found - wanted) < 2e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("how", ["taken from", "turned", "divided"])
def test_places_in_other_words(how: str) -> None:
    made = GraphBuilder()
    x, at = made.input("x", "fp16", (2, 3, 6, 8)), made.input("at", "fp16", (2, 2, 4, 5))
    at = made.single("reverse", x=made.single("transpose", x=at, perm=[0, 2, 3, 1]), axes=[1])
    number = RANDOM.uniform(0.5, 1, (4, 5, 2)).astype(np.float16)
    if how == "taken from":
        at = made.single("sub", x=number, y=at)
    elif how == "turned":
        at = made.single("reshape", x=made.single("mul", x=number, y=at), shape=[2, 5, 4, 2])
    else:
        at = made.single("add", x=made.single("real_div", x=at, y=number), y=np.float16(0.125))
    graph = _sampled(made, x, at, corners=False)
    data = {"x": RANDOM.standard_normal((2, 3, 6, 8)).astype(np.float16),
            "at": RANDOM.uniform(-1, 1, (2, 2, 4, 5)).astype(np.float16)}
    simple = simplify(graph)
    assert not {"add", "sub", "mul", "real_div"} & {node.op for node in simple.nodes}
    np.testing.assert_allclose(evaluate(simple, data)["y"], evaluate(graph, data)["y"], atol=2e-3)


def test_places_that_nothing_is_done_to_are_left_alone() -> None:
    made = GraphBuilder()
    x, at = made.input("x", "fp16", (1, 3, 6, 8)), made.input("at", "fp16", (1, 2, 4, 5))
    graph = _sampled(made, x, made.single("transpose", x=made.single("tanh", x=at), perm=[0, 2, 3, 1]))
    assert simplify(graph).nodes[-1].get("offset") is None
