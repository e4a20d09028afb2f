"""Digits that sums of small products keep, and small results of functions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openane.compiler import Model, compile
from openane.devices import run
from openane.graph import Graph, RoundedArray, Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.rescale import rescale

Inputs = dict[str, np.ndarray]
SPREAD = np.concatenate([np.full(32, 4.0), np.full(32, 2.0 ** -11)]).astype(np.float16)
"""What loud and quiet numbers are multiplied by: products of the quiet ones are below 2^-16."""


def layer(bias: float | None = None, size: float = 0.02) -> tuple[Graph, Inputs]:
    """A layer whose results are small."""
    rng, builder = np.random.default_rng(5), GraphBuilder("layer")
    x = builder.input("x", "fp16", (16, 64))
    weight = (rng.standard_normal((64, 64)) * size).astype(np.float16)
    offsets = {} if bias is None else {"bias": np.full(64, bias, np.float16)}
    y = builder.single("linear", x=x, weight=weight, **offsets)
    return builder.finish({"y": y}), {"x": (rng.standard_normal((16, 64)) / 8).astype(np.float16)}


def logarithm(floor: bool, quiet: float = 1.0) -> tuple[Graph, Inputs]:
    """The logarithm of sums of powers, half of which are 2^13 times as large as the others, over `quiet`."""
    rng, builder = np.random.default_rng(6), GraphBuilder("logarithm")
    x = builder.input("x", "fp16", (100, 64))
    weight = np.zeros((8, 64))
    for band in range(8):
        weight[band, 8 * band:8 * band + 8] = rng.uniform(2.0 ** -6, 2.0 ** -5, 8) * (1 if band < 4 else quiet)
    y = builder.single("linear", x=x, weight=weight.astype(np.float16))
    if floor:
        y = builder.single("maximum", x=y, y=np.float16(0))
    y = builder.single("log", x=y, epsilon=0.0)
    return builder.finish({"y": y}), {"x": (rng.uniform(0.5, 1, (100, 64)) * SPREAD).astype(np.float16)}


def tasks(model: Model) -> int:
    return sum(len(program.tasks) for program in model.programs)


def error(graph: Graph, inputs: Inputs, precision: str = "safe") -> tuple[float, Model]:
    wanted = evaluate(graph, inputs)["y"].astype(np.float64)
    model = compile(graph, samples=inputs, precision=precision)
    found = run(model, inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted)), model


@pytest.mark.parametrize("floor", [False, True], ids=["of sums", "of sums above 0"])
def test_a_logarithm_reads_digits_of_quiet_sums(floor: bool) -> None:
    graph, inputs = logarithm(floor)
    assert error(graph, inputs)[0] < 1e-3
    assert error(graph, inputs, "as-is")[0] > 0.1


@pytest.mark.parametrize("beside", [1.0, 2.0 ** -4])
def test_what_a_logarithm_reads_is_raised_no_further_than_its_smallest_number_needs(beside: float) -> None:
    """A logarithm of what is raised is larger, and is rounded before that is taken back."""
    rng, builder = np.random.default_rng(7), GraphBuilder("near a number")
    weight = (rng.standard_normal((64, 64)) * 2.0 ** -8).astype(np.float16)
    sums = builder.single("linear", x=builder.input("x", "fp16", (16, 64)), weight=weight)
    above = builder.single("add", x=builder.single("abs", x=sums), y=np.float16(beside))
    graph = builder.finish({"y": builder.single("log", x=above, epsilon=0.0)})
    inputs = {"x": (rng.standard_normal((16, 64)) / 4).astype(np.float16)}
    assert error(graph, inputs)[0] <= 1.05 * error(graph, inputs, "as-is")[0]


def test_a_logarithm_reads_digits_of_channels_far_apart() -> None:
    """Weights of quiet channels take up powers of two of their own, which are taken back behind the logarithm."""
    graph, inputs = logarithm(True, 2.0 ** -12)
    found, model = error(graph, inputs)
    assert found < 1e-3
    assert any("for each channel" in str(concern) for concern in model.concerns)
    assert tasks(model) <= tasks(compile(graph, precision="as-is")) + 2
    near, _ = logarithm(True, 1.0)
    builder = GraphBuilder("not read by a logarithm alone")
    assert rescale(near, [inputs]).channels == 1
    x = builder.input("x", "fp16", (4, 64))
    y = builder.single("linear", x=x, weight=np.diag(2.0 ** -np.arange(64) / 4)[:8].astype(np.float16))
    both = builder.finish({"y": builder.single("log", x=y, epsilon=0.0), "z": y})
    assert not rescale(both, [{"x": np.ones((4, 64), np.float16)}]).channels


@pytest.mark.parametrize(("name", "shape", "sizes"), [
    ("conv", (8, 2, 1, 1), 2.0 ** -np.arange(0, 16, 2).reshape(8, 1, 1, 1)),
    ("conv_transpose", (4, 4, 1, 1), 2.0 ** -np.arange(0, 16, 4).reshape(1, 4, 1, 1))])
def test_channels_of_convolutions_in_groups_are_raised_each(name: str, shape: tuple[int, ...],
                                                            sizes: np.ndarray) -> None:
    rng, builder = np.random.default_rng(0), GraphBuilder("groups")
    weight = rng.uniform(0.5, 1, shape) * sizes
    x = builder.input("x", "fp16", (1, 4, 8, 8))
    y = builder.single(name, x=x, weight=weight.astype(np.float16), groups=2, pad_type="valid")
    graph = builder.finish({"y": builder.single("log", x=y, epsilon=0.0)})
    inputs = {"x": rng.uniform(0.1, 2, (1, 4, 8, 8)).astype(np.float16)}
    made = rescale(graph, [inputs])
    assert made.channels == 1
    np.testing.assert_allclose(evaluate(made.graph, inputs)["y"], evaluate(graph, inputs)["y"], rtol=0, atol=0.01)


def test_small_sums_are_as_exact_as_their_rounding() -> None:
    found, model = error(*layer())
    as_is, plain = error(*layer(), "as-is")
    assert found < 3e-4 < 1.5e-3 < as_is
    assert len(model.programs[0].tasks) == len(plain.programs[0].tasks)


def test_a_bias_of_zeros_costs_no_task() -> None:
    found, model = error(*layer(0.0))
    assert found < 3e-4
    assert len(model.programs[0].tasks) == len(error(*layer())[1].programs[0].tasks)


def test_tanh_keeps_digits_of_small_numbers() -> None:
    builder = GraphBuilder("tanh", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", (4, 1024))
    graph = builder.finish({"y": builder.single("tanh", x=x)})
    for size in (0.01, 0.1, 1.0, 10.0):
        inputs = {"x": (np.random.default_rng(7).standard_normal((4, 1024)) * size).astype(np.float16)}
        found, model = error(graph, inputs)
        assert found < 5e-4
        assert len(model.programs[0].tasks) == 3
        assert error(graph, inputs, "fast")[0] > 1.5 * found


def scores(kind: str) -> tuple[Graph, Inputs, np.ndarray]:
    """Sigmoids of numbers from -16 to -1, as the model's scores, concatenated and moved, or read by a product; or of
    numbers near 0, for a product."""
    low, high = (-0.5, 0.5) if kind == "gates" else (-16, -1)
    numbers = np.linspace(low, high, 4096).astype(np.float16).reshape(1, 4, 32, 32)
    builder = GraphBuilder("scores", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", numbers.shape)
    y = builder.single("sigmoid", x=x)
    if kind == "moved":
        y = builder.single("transpose", x=builder.single("concat", values=(y, y), axis=1), perm=[0, 2, 3, 1])
    inputs = {"x": numbers}
    if kind in ("small", "gates"):
        y = builder.single("mul", x=y, y=builder.input("gated", "fp16", numbers.shape))
        inputs["gated"] = np.full_like(numbers, 3)
    wide = numbers.astype(np.float64)
    wanted = 1 / (1 + np.exp(-wide))
    if kind == "moved":
        wanted = np.concatenate([wanted, wanted], axis=1).transpose(0, 2, 3, 1)
    return builder.finish({"y": y}), inputs, wanted * (3 if "gated" in inputs else 1)


@pytest.mark.parametrize("kind", ["outputs", "moved", "small"])
def test_small_sigmoids_keep_their_digits(kind: str, tmp_path: Path) -> None:
    graph, inputs, wanted = scores(kind)
    model, plain = compile(graph, samples=inputs, cache=False), compile(graph, precision="as-is", cache=False)
    found, other = (run(each, inputs)[graph.outputs[0].name] for each in (model, plain))
    normal = np.abs(wanted) > 2.0 ** -14
    errors = [np.abs(each[normal] - wanted[normal]) / np.abs(wanted[normal]) for each in (found, other)]
    assert errors[0].max() < 0.005 < 0.9 < errors[1].max()
    assert np.abs(found - wanted)[~normal].max() < 1e-6
    assert len(model.programs[0].tasks) == len(plain.programs[0].tasks)
    model.save(tmp_path / "scores.ane")
    kept = Model.load(tmp_path / "scores.ane")
    assert np.array_equal(run(kept, inputs)[graph.outputs[0].name], found)


def test_models_made_for_the_engine_keep_digits_of_small_sigmoids_alone() -> None:
    graph, inputs, wanted = scores("outputs")
    plain = replace(graph, metadata={})
    found = run(compile(plain, samples=inputs, cache=False), inputs)["y"]
    normal = wanted > 2.0 ** -14
    assert (np.abs(found - wanted)[normal] / wanted[normal]).max() < 0.005
    ordinary = {"x": np.random.default_rng(2).standard_normal(inputs["x"].shape).astype(np.float16)}
    assert rescale(plain, [ordinary]).graph is plain
    assert rescale(graph, [ordinary]).graph is not graph


def test_gates_near_a_half_keep_their_table() -> None:
    graph, inputs, _ = scores("gates")
    assert rescale(graph, [inputs]).graph is graph


@pytest.mark.parametrize("name", ["instance_norm", "layer_norm", "written out"])
def test_an_epsilon_beside_small_variances_has_all_its_digits(name: str) -> None:
    """fp16 has no number between 0 and 6e-8; of sums that are held times 2^e the epsilon is held times 4^e."""
    rng, builder, epsilon = np.random.default_rng(8), GraphBuilder("norm"), 2e-8
    weight = (rng.standard_normal((8, 8, 1, 1)) * 2.0 ** -14).astype(np.float16)
    x = builder.single("conv", x=builder.input("x", "fp16", (1, 8, 8, 8)), weight=weight)
    if name == "written out":
        squares = builder.single("reduce_mean", x=builder.single("square", x=x), axes=[2, 3], keep_dims=True)
        stated = RoundedArray(np.array(epsilon).astype(np.float16), np.array(epsilon, np.float32))
        root = builder.single("rsqrt", x=builder.single("add", x=squares, y=stated), epsilon=0.0)
        y = builder.single("mul", x=x, y=root)
    else:
        axes = {"axes": [2, 3]} if name == "layer_norm" else {}
        y = builder.single(name, x=x, epsilon=epsilon, **axes)
    inputs = {"x": rng.standard_normal((1, 8, 8, 8)).astype(np.float16)}
    sums = np.einsum("oi,bihw->bohw", weight[:, :, 0, 0].astype(np.float64), inputs["x"].astype(np.float64))
    centred = sums if name == "written out" else sums - sums.mean((2, 3), keepdims=True)
    wanted = centred / np.sqrt(np.square(centred).mean((2, 3), keepdims=True) + epsilon)
    graph = builder.finish({"y": y})
    found = run(compile(graph, samples=inputs), inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.linalg.norm(found - wanted) <= 2e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize(("name", "settings"), [
    ("cumsum", {"axis": 2}), ("resize_bilinear", {"target_size_height": 13, "target_size_width": 11}),
    ("crop_resize", {"roi": np.array([[[[[0.0]], [[1.3]], [[0.7]], [[6.1]], [[5.9]]]]]), "target_height": 5,
                     "target_width": 4}),
    ("band_part", {"lower": 2, "upper": 1})])
def test_sums_that_no_weights_make_keep_the_digits_of_small_numbers(name: str, settings: dict[str, Any]) -> None:
    rng, builder = np.random.default_rng(9), GraphBuilder("small")
    weight = (rng.standard_normal((8, 8, 1, 1)) * 2.0 ** -12).astype(np.float16)
    small = builder.single("conv", x=builder.input("x", "fp16", (1, 8, 8, 8)), weight=weight)
    made = builder.single(name, x=small, **settings)
    made = builder.single("reshape", x=made, shape=[1, 8, *made.shape[-2:]])
    graph = builder.finish({"y": builder.single("conv", x=made, weight=(weight.astype(np.float32) * 2.0 ** 20)
                                                .astype(np.float16))})
    assert error(graph, {"x": rng.standard_normal((1, 8, 8, 8)).astype(np.float16)})[0] <= 1e-3


@pytest.mark.parametrize("gain", [False, True], ids=["alone", "with a gain"])
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_norms_of_numbers_far_below_the_root_of_their_epsilon(name: str, gain: bool) -> None:
    """Results are as small as what is read: they are held times a power of two, which the root of the norm takes up."""
    rng, builder = np.random.default_rng(0), GraphBuilder("tiny")

    def linear(x: Value, size: float) -> Value:
        return builder.single("linear", x=x, weight=(rng.standard_normal((32, 32)) * size / 6).astype(np.float16))

    gains = {"gamma": rng.uniform(0.5, 2, 32).astype(np.float16)} if gain else {}
    small = linear(builder.input("x", "fp16", (1, 16, 32)), 2.0 ** -13)
    tiny = builder.single("mul", x=small, y=np.float16(2.0 ** -14))
    first = builder.single(name, x=tiny, axes=[-1], epsilon=1e-5, **gains)
    second = builder.single(name, x=linear(first, 4.0), axes=[-1], epsilon=1e-5)
    graph = builder.finish({"y": builder.single("mul", x=linear(second, 2.0 ** 14), y=np.float16(100))})
    inputs = {"x": rng.standard_normal((1, 16, 32)).astype(np.float16)}
    found, model = error(graph, inputs)
    assert found <= 1e-3
    assert tasks(model) <= tasks(compile(graph, precision="as-is")) + 2


def test_a_variance_that_is_hardly_above_what_fp16_rounds_epsilon_by() -> None:
    """Products near 2^-11 have their digits in fp16, and their variance has none beside 6e-8, to which 1e-9 is
    rounded."""
    rng, builder = np.random.default_rng(10), GraphBuilder("small variance")
    x = builder.input("x", "fp16", (1, 8, 64))
    small = builder.single("mul", x=builder.single("softmax", x=x, axis=1), y=builder.single("tanh", x=x))
    less = builder.single("mul", x=small, y=builder.single("softmax", x=x, axis=2))
    stated = RoundedArray(np.array(2.0 ** -24, np.float16), np.array(1e-9, np.float32))
    graph = builder.finish({"y": builder.single("layer_norm", x=less, axes=[-1], epsilon=stated)})
    assert error(graph, {"x": rng.standard_normal((1, 8, 64)).astype(np.float16) / 2})[0] <= 3e-3
