"""Rounding by what layers are given: their results err less than with numbers rounded to the nearest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import openane as ane
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.quantization.layers import layers_of
from openane.quantization.looking import parted
from openane.quantization.matrices import matrices_of
from openane.quantization.measuring import relative
from openane.quantization.rounding import factor_of, rounded

RANDOM = np.random.default_rng(4)
Build = Callable[[GraphBuilder, Value], Value]


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.1).astype(np.float16)


def linear(b: GraphBuilder, x: Value) -> Value:
    return b.single("linear", x=x, weight=weight(48, 64), bias=weight(48))


def product(b: GraphBuilder, x: Value) -> Value:
    return b.single("matmul", x=x, y=b.constant(weight(64, 48), "w"))


def turned_product(b: GraphBuilder, x: Value) -> Value:
    return b.single("matmul", x=x, y=b.constant(weight(48, 64), "w"), transpose_y=True)


def left_product(b: GraphBuilder, x: Value) -> Value:
    return b.single("matmul", x=b.constant(weight(48, 64), "w"), y=b.single("transpose", x=x, perm=(0, 2, 1)))


def convolution(b: GraphBuilder, x: Value) -> Value:
    image = b.single("reshape", x=b.single("transpose", x=x, perm=(0, 2, 1)), shape=(1, 64, 16, 8))
    return b.single("conv", x=image, weight=weight(64, 16, 3, 3), bias=weight(64), groups=4, pad_type="same",
                    strides=(2, 1))


LAYERS = (linear, product, turned_product, left_product, convolution)


def network(build: Build) -> Graph:
    b = GraphBuilder("one")
    return b.finish({"y": build(b, b.input("x", "fp16", (1, 128, 64)))})


def samples(count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Vectors [1, 128, 64] that mostly lie in a few directions, as those inside of trained networks do, and are not
    around 0."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(9).standard_normal((64, 64)) * np.logspace(0, -2, 64)[:, None]
    return [{"x": (rng.standard_normal((1, 128, 64)) @ directions + 1).astype(np.float16)} for _ in range(count)]


@pytest.mark.parametrize("build", LAYERS)
def test_matrices_multiply_what_the_layer_does(build: Build) -> None:
    """Their products with the vectors are the layer's results, bias apart, in another order."""
    graph = network(build)
    [layer] = layers_of(graph)
    matrices = matrices_of(layer)
    assert matrices is not None
    array = layer.weight.array()
    rows = matrices.rows(array)
    assert np.array_equal(matrices.weight(rows, array.shape).astype(array.dtype), array)
    seen: list[np.ndarray] = []
    results = evaluate(graph, samples(1)[0], lambda node, arrays: seen.append(matrices.vectors(arrays))
                       if node is layer.nodes[0] else None)["y"]
    found = np.matmul(rows, seen[0].swapaxes(1, 2))
    bias = layer.nodes[0].get("bias")
    if bias is not None:
        found = found + bias.array().reshape(matrices.groups, -1, 1)
    assert np.allclose(np.sort(found, None), np.sort(results, None), atol=1e-3)


@pytest.mark.parametrize("form", ["int8", "int8-blocks", "int8-offsets", "int8-columns", "palette6", "palette4"])
@pytest.mark.parametrize("build", LAYERS)
def test_results_on_other_samples_err_less(build: Build, form: str) -> None:
    graph = network(build)
    wanted = [evaluate(graph, sample)["y"] for sample in samples(4, 1)]
    errors = []
    for calibrate in (False, True):
        found = ane.quantize(graph, form, samples=samples(8), calibrate=calibrate)
        assert [str(layer.form) for layer in found.layers] == [form]
        errors.append(np.mean([relative(evaluate(found.graph, sample)["y"], want)
                               for sample, want in zip(samples(4, 1), wanted, strict=True)]))
    assert errors[1] < (0.85 if build is convolution else 0.6) * errors[0]


def test_a_bias_takes_the_mean_of_the_error() -> None:
    graph = network(linear)
    several = samples(8)
    fit, held = parted(several).fit, parted(several).held
    assert (len(fit), len(held)) == (6, 2)

    def mean_error(biases: bool) -> float:
        made = ane.quantize(graph, "palette4", samples=several, biases=biases).graph
        changed = {name for node in made.nodes for name in node.operands if node.op == "linear"}
        assert changed == {"x", "weight", "bias"}
        return float(np.abs(np.mean([evaluate(made, sample)["y"] - evaluate(graph, sample)["y"] for sample in several],
                                    (0, 1, 2))).max())
    assert mean_error(True) < 0.2 * mean_error(False)


def test_what_follows_makes_good_for_what_was_rounded() -> None:
    """Of two equal inputs, the second takes the error of the first."""
    factor = factor_of(np.ones((2, 2)) + np.eye(2) * 1e-9, 1e-9)
    assert factor is not None
    found = rounded(np.array([[0.4, 0.4], [0.3, 0.3]]), factor, lambda column, place: np.rint(column))
    assert found.sum(1).tolist() == [1.0, 1.0]


def test_moments_of_nothing_have_no_factor() -> None:
    assert factor_of(np.zeros((3, 3)), 0.1) is None
    assert factor_of(np.full((3, 3), np.nan), 0.1) is None


def test_padding_that_a_mask_names_does_not_count() -> None:
    """Noise in masked places changes nothing of what is chosen."""
    b = GraphBuilder("masked")
    x, mask = b.input("x", "fp16", (1, 128, 64)), b.input("attention_mask", "fp16", (1, 128, 1))
    graph = b.finish({"y": b.single("mul", x=linear(b, x), y=mask)})
    kept = (np.arange(128) < 40).astype(np.float16).reshape(1, 128, 1)
    clean = [{"x": sample["x"] * kept, "attention_mask": kept} for sample in samples(4)]
    noisy = [{**sample, "x": sample["x"] + (1 - kept) * weight(1, 128, 64) * 50} for sample in clean]
    first, second = (ane.quantize(graph, "int8", samples=each).layers[0].stored for each in (clean, noisy))
    assert np.array_equal(first.array, second.array)


def test_inputs_that_are_not_finite_leave_the_nearest() -> None:
    broken = [{"x": np.full((1, 128, 64), np.inf, np.float16)} for _ in range(4)]
    found = ane.quantize(network(linear), "int8", samples=broken)
    plain = ane.quantize(network(linear), "int8", samples=[])
    assert found.layers[0].stored.array.shape == plain.layers[0].stored.array.shape
    assert found.layers[0].stored.bias is None
