"""Gradients of what picks, writes, resizes and recurs against central differences of the references."""

from __future__ import annotations

import numpy as np
import pytest
from support.gradient_cases import CASES, CURVES, RECURRENT
from support.gradients import hold, summed, wide

from openane.errors import AneError, UnsupportedError
from openane.ops.build import GraphBuilder
from openane.training.gradient import gradient, promote


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_differences(case):
    low = 0.3 if case.op == "reduce_prod" or case.operands.get("mode") == "div" else -2.0
    hold(case.numbers(np.float64, low), case.made, case.weights, tolerance=1e-4)


@pytest.mark.parametrize("case", [*RECURRENT, *CURVES], ids=str)
def test_the_expanded_form_is_the_operation(case):
    graph, numbers = summed(case.numbers(np.float64), case.made, weights=case.weights), case.numbers(np.float64)
    joint = gradient(graph, "loss", ["x"])
    assert not any(node.op == case.op for node in joint.nodes)
    assert np.allclose(wide(joint, numbers)["loss"], wide(graph, numbers)["loss"], rtol=1e-6)
    if case.weights:
        plain, weights = promote(graph, list(case.weights))
        assert np.allclose(wide(plain, {**numbers, **weights})["loss"], wide(graph, numbers)["loss"], rtol=1e-6)


def test_products_with_zeros_among_them():
    graph = summed({"x": np.zeros((3, 3))}, lambda b, v: b.add("reduce_prod", **v, axes=[1], keep_dims=True))
    rows = np.array([[2.0, 3, 5], [2, 0, 5], [0, 0, 5]])
    found = wide(gradient(graph, "loss", ["x"]), {"x": rows})["gradient_x"]
    weights = np.array([[15.0, 10, 6], [0, 10, 0], [0, 0, 0]])
    assert np.allclose(found * weights.max(1, keepdims=True), weights * found.max(1, keepdims=True))
    assert (found[:2].max(1) > 0).all()


def test_of_equal_elements_the_one_that_topk_names_gets_all():
    graph = summed({"x": np.zeros(4)}, lambda b, v: b.add("topk", **v, k=2, return_indices=False))
    found = wide(gradient(graph, "loss", ["x"]), {"x": np.array([1.0, 3, 3, 3])})["gradient_x"]
    assert (found > 0).tolist() == [False, True, True, False]


@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_is_updated_wins_where_an_update_is_equal(mode):
    graph = summed({"data": np.zeros(2), "updates": np.zeros(2)},
                   lambda b, v: b.add("scatter", **v, indices=np.int32([0, 1]), mode=mode))
    found = wide(gradient(graph, "loss", ["data", "updates"]), {"data": np.ones(2), "updates": np.ones(2)})
    assert (found["gradient_data"] > 0).all()
    assert not found["gradient_updates"].any()


def test_what_is_overwritten_has_no_gradient_even_where_it_is_infinite():
    made = {"scatter": lambda b, v: b.add("scatter", **v, indices=np.int32([1]), mode="update"),
            "slice": lambda b, v: b.add("slice_update", x=v["data"], update=v["updates"], begin=[1], end=[2])}
    for function in made.values():
        joint = gradient(summed({"data": np.zeros(3), "updates": np.zeros(1)}, lambda b, v, function=function: b.add(
            "square", x=function(b, v))), "loss", ["data", "updates"])
        found = wide(joint, {"data": np.array([1.0, np.inf, 2]), "updates": np.array([np.inf])})
        assert (found["gradient_data"] > 0).tolist() == [True, False, True]
        assert np.isinf(found["gradient_updates"]).all()


@pytest.mark.parametrize(("name", "operands"), [
    ("reduce_l2_norm", {"axes": [2, 3]}), ("l2_pool", {"kernel_sizes": [2, 2], "pad_type": "valid"}),
    ("l2_pool", {"kernel_sizes": [1, 2], "strides": [1, 2], "pad_type": "valid"})])
def test_norms_of_nothing_have_no_slope(name, operands):
    x = np.zeros((1, 2, 2, 2))
    x[0, 1] = 1
    graph = summed({"x": x}, lambda b, v: b.add(name, **v, **operands))
    found = wide(gradient(graph, "loss", ["x"]), {"x": x})["gradient_x"]
    assert not found[0, 0].any()
    assert (found[0, 1] > 0).all()


def test_what_is_not_between_the_names_and_the_loss_stays_whole():
    builder = GraphBuilder()
    x, w = builder.input("x", "fp32", (3, 2, 4)), builder.input("w", "fp32", (2, 3))
    cell = {name: np.ones(shape, np.float32) for name, shape in (("weight_ih", (3, 4)), ("weight_hh", (3, 3)))}
    first = builder.add("rnn", x=x, initial_h=np.zeros((2, 3), np.float32), **cell)[1]
    second = builder.add("rnn", x=x, initial_h=builder.single("mul", x=first, y=w), **cell)[1]
    other = builder.single("softplus", x=second)
    graph = builder.finish({"loss": builder.single("reduce_sum", x=second), "other": other})
    joint = gradient(graph, "loss", ["w"])
    assert [sum(node.op == op for node in joint.nodes) for op in ("rnn", "softplus")] == [1, 1]


def test_settings_of_what_is_expanded_stay_constants():
    builder = GraphBuilder()
    found = builder.single("local_response_norm", x=builder.input("x", "fp32", (1, 4, 3)), size=3,
                           beta=builder.constant(np.float32(0.5), "beta"))
    graph = builder.finish({"loss": builder.single("reduce_sum", x=found)})
    for wrt in (["beta"], ["x", "beta"]):
        with pytest.raises(UnsupportedError, match=r"'beta' must be a constant"):
            gradient(graph, "loss", wrt)


def _loose(builder, op):
    x = builder.input("x", "fp32", (1, 2, 3, 4))
    if op == "resample":
        at = builder.input("at", "fp32", (1, 2, 2, 2))
        return builder.single("resample", x=x, coordinates=at, sampling_mode="bilinear", padding_mode="border",
                              padding_value=0.0, coordinates_mode="unnormalized", align_corners=True)
    if op == "crop_resize":
        at = builder.input("at", "fp32", (1, 4))
        return builder.single("crop_resize", x=x, boxes=at, target_height=2, target_width=2)
    at, updates = builder.input("at", "int32", (2,)), builder.input("updates", "fp32", (2, 2, 3, 4))
    return builder.single("scatter", data=x, indices=at, updates=updates, axis=0, mode=op)


@pytest.mark.parametrize("op", ["resample", "crop_resize", "update", "mul"])
def test_places_that_depend_on_data_are_refused(op):
    builder = GraphBuilder()
    graph = builder.finish({"loss": builder.single("reduce_sum", x=_loose(builder, op))})
    with pytest.raises(UnsupportedError) as caught:
        gradient(graph, "loss", ["x"])
    assert caught.value.remedy
    with pytest.raises(AneError):
        gradient(graph, "loss", ["at"])
