"""Digits of a model's constants that fp16 does not hold count where something is computed of the constants: what is
folded together is rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from openane.compiler.cache import model_key
from openane.compiler.precision import precise
from openane.graph import RoundedConstant, without_stated
from openane.importers.onnx import load_onnx
from openane.passes.fold_affine import fold_affine, refolded
from openane.passes.fold_constants import fold_constants

CHANNELS = 6


@pytest.fixture
def drawn():
    generator = np.random.default_rng(1)
    return {"w": generator.standard_normal((CHANNELS, 3, 3, 3)), "gamma": generator.uniform(0.5, 2, CHANNELS),
            "beta": generator.standard_normal(CHANNELS), "mean": generator.standard_normal(CHANNELS),
            "variance": generator.uniform(0.2, 3, CHANNELS)}


@pytest.fixture
def normed(model, drawn):
    """A convolution and a batch norm of numbers that fp16 does not hold."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]),
             helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["y"], epsilon=1e-5)]
    return model(nodes, {"x": (1, 3, 8, 8)}, {name: array.astype(np.float32) for name, array in drawn.items()})


def _exact(drawn):
    given = {name: array.astype(np.float32).astype(np.float64) for name, array in drawn.items()}
    gain = given["gamma"] / np.sqrt(given["variance"] + np.float32(1e-5))
    return given["w"] * gain.reshape(-1, 1, 1, 1), given["beta"] - given["mean"] * gain


def test_a_folded_norm_is_rounded_once(normed, drawn):
    (conv,) = fold_affine(load_onnx(normed)).nodes
    for name, exact in zip(("weight", "bias"), _exact(drawn), strict=True):
        half = np.spacing(np.abs(exact).astype(np.float16)).astype(np.float64) / 2
        assert (np.abs(conv[name].array() - exact) <= 1.001 * half).all(), name


@pytest.mark.parametrize("gain", [0.37, 2.0 ** -16, 2.0 ** 14])
@pytest.mark.parametrize("bias", [False, True])
def test_several_gains_are_folded_as_one_after_the_other(model, drawn, gain, bias):
    """Also where fp16 holds the weight behind one of them and not behind the next."""
    drawn |= {"gain": drawn["gamma"].reshape(-1, 1, 1) * gain, "back": np.full((1, 1, 1), 0.7 / gain)}
    drawn |= {"bias": drawn["beta"] + 1} if bias else {}
    nodes = [helper.make_node("Conv", ["x", "w", *(["bias"] if bias else [])], ["c"]),
             helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["n"], epsilon=1e-5),
             helper.make_node("Mul", ["n", "gain"], ["g"]), helper.make_node("Mul", ["g", "back"], ["b"]),
             helper.make_node("Add", ["b", "beta3"], ["y"])]
    drawn["beta3"] = drawn["mean"].reshape(-1, 1, 1)
    graph = load_onnx(model(nodes, {"x": (1, 3, 8, 8)}, {name: array.astype(np.float32) for name, array in
                                                         drawn.items()}))
    conv, *rest = fold_affine(graph).nodes
    wanted = refolded(graph.nodes[0], graph.nodes[1:len(graph.nodes) - len(rest)])
    assert wanted is not None
    for name in ("weight", "bias"):
        assert np.array_equal(conv[name].array().view(np.uint16), wanted[name].array().view(np.uint16))
    assert bool(rest) == (gain > 1)


def test_without_them_it_is_rounded_twice(normed, drawn):
    (conv,) = fold_affine(without_stated(load_onnx(normed))).nodes
    weight, _ = _exact(drawn)
    half = np.spacing(np.abs(weight).astype(np.float16)).astype(np.float64) / 2
    assert (np.abs(conv["weight"].array() - weight) > 1.001 * half).any()


@pytest.mark.parametrize("precision", ["as-is", "fast"])
def test_as_is_knows_none(normed, precision):
    assert not any(isinstance(value, RoundedConstant)
                   for node in precise(load_onnx(normed), precision).nodes for value in node.values())


def test_weights_made_of_constants_keep_them(model, drawn):
    nodes = [helper.make_node("Mul", ["w", "scale"], ["product"]), helper.make_node("Conv", ["x", "product"], ["y"])]
    scale = np.float32(1 / 3)
    graph = load_onnx(model(nodes, {"x": (1, 3, 8, 8)}, {"w": drawn["w"].astype(np.float32),
                                                          "scale": np.array([[[[scale]]]])}))
    weight = fold_constants(graph).nodes[-1]["weight"]
    assert np.array_equal(weight.array(), (drawn["w"].astype(np.float32) * scale).astype(np.float16))


def test_models_that_differ_in_them_alone_are_kept_apart(model, drawn):
    def key(weight):
        node = helper.make_node("Conv", ["x", "w"], ["y"])
        return model_key(load_onnx(model([node], {"x": (1, 3, 8, 8)}, {"w": weight})), "h13", False)

    weight = drawn["w"].astype(np.float32)
    other = np.nextafter(weight, np.float32(0))
    assert np.array_equal(weight.astype(np.float16), other.astype(np.float16))
    assert key(weight) != key(other)


def test_matrices_give_them_up(model, weights):
    array = weights(16, 16) + np.float32(2.0 ** -20)
    graph = load_onnx(model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (4, 16)}, {"w": array}))
    assert not any(isinstance(value, RoundedConstant) for node in graph.nodes for value in node.values())
