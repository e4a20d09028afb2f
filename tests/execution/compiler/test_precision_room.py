"""Numbers that are raised, or made smaller, stay inside of what holds them: neither what weights do not take up, nor
what a sum passes through on its way, becomes infinite."""

from __future__ import annotations

import numpy as np
import pytest

from openane.compiler import compile
from openane.devices import run
from openane.graph import Graph, RoundedConstant, TensorType, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.weight_room import times

Inputs = dict[str, np.ndarray]


def convolved(builder: GraphBuilder, x: Value, weight: np.ndarray) -> Value:
    return builder.single("conv", x=x, weight=weight.astype(np.float16)[:, :, None, None], pad=[0] * 4,
                          pad_type="valid", strides=[1, 1])


def differences(weight: float, large: int = 0) -> tuple[Graph, Inputs]:
    """Neighbours that are the same but for a few, taken from each other: small results of large products. `large`: how
    many layers before make them 2^12 times as large, and behind smaller."""
    rng, builder = np.random.default_rng(3), GraphBuilder("differences")
    x = y = builder.input("x", "fp16", (1, 2, 64, 64))
    for _ in range(large):
        y = convolved(builder, y, 2.0 ** 12 * np.eye(2))
    y = builder.single("relu", x=convolved(builder, y, np.array([[weight, -weight]])))
    for _ in range(large):
        y = convolved(builder, y, 2.0 ** -12 * np.eye(1))
    y = convolved(builder, y, rng.standard_normal((4, 1)))
    base = np.full((1, 1, 64, 64), 2.0 ** 8)
    steps = (rng.random(base.shape) < 2.0 ** -11) * 2.0 ** -2
    return builder.finish({"y": y}), {x.name: np.concatenate([base + steps, base], 1).astype(np.float16)}


def uneven() -> tuple[Graph, Inputs]:
    """A factor that is small where numbers are large, and large where they are small."""
    builder = GraphBuilder("uneven")
    x = builder.input("x", "fp16", (1, 2, 8, 8))
    sizes = np.array([2.0 ** -12, 1.0]).reshape(1, 2, 1, 1)
    y = builder.single("mul", x=builder.single("relu", x=x), y=(2.0 ** -12 / sizes).astype(np.float16))
    y = convolved(builder, y, np.full((4, 2), 2.0 ** -2))
    y = convolved(builder, y, np.full((4, 4), 2.0 ** 10))
    numbers = np.random.default_rng(4).uniform(0.5, 1, (1, 2, 8, 8)) * sizes
    return builder.finish({"y": y}), {"x": numbers.astype(np.float16)}


@pytest.mark.parametrize("made", [differences(2.0 ** -12), differences(2.0 ** -8), differences(2.0 ** -4),
                                  differences(1.0, 3), differences(2.0 ** -6, 2), uneven()],
                         ids=["of faint weights", "of small weights", "of weights", "of large numbers",
                              "of large numbers and small weights", "uneven"])
def test_what_is_raised_has_room(made: tuple[Graph, Inputs]) -> None:
    graph, inputs = made
    wanted = evaluate(graph, inputs)["y"]
    model = compile(graph, samples=inputs, allow_host=False)
    found = run(model, inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.linalg.norm(found - wanted) <= 2e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize(("norm", "shape"), [("layer_norm", (8, 64)), ("instance_norm", (1, 4, 8, 8)),
                                             ("l2_norm", (2, 4, 8))])
@pytest.mark.parametrize("size", [2.0 ** -18, 2.0 ** -23])
def test_norms_of_faint_numbers_have_room_for_epsilon(norm: str, shape: tuple[int, ...], size: float) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp32", shape)
    faint = builder.single("mul", x=builder.single("mul", x=x, y=np.float32(size ** 0.5)), y=np.float32(size ** 0.5))
    axes = {"axes": [1]} if norm == "layer_norm" else {}
    result = builder.single("mul", x=builder.single(norm, x=faint, epsilon=1e-5, **axes), y=np.float32(2.0 ** 12))
    graph = builder.finish({"y": result})
    inputs = {"x": np.random.default_rng(5).standard_normal(shape).astype(np.float32)}
    wanted = evaluate(graph, inputs)["y"]
    found = run(compile(graph, allow_host=False), inputs, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.linalg.norm(found - wanted) <= 4e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("size", [2.0 ** -6, 2.0 ** -13])
def test_what_a_gate_leaves_small_has_no_more_room_than_what_it_is_made_of(size: float) -> None:
    """Products of rows with a number each, in which the largest rows nearly vanish: they are far from what they are
    made of, which is read as well."""
    rng, builder = np.random.default_rng(1), GraphBuilder("gated")
    x, gates = builder.input("x", "fp16", (1, 8, 16, 16)), builder.input("gates", "fp16", (1, 8, 16, 1))
    small = builder.single("mul", x=x, y=size)
    products = builder.single("mul", x=small, y=builder.single("mul", x=gates, y=2.0 ** -13))
    found = builder.single("reduce_sum", x=products, axes=[2], keep_dims=True)
    for _ in range(2):
        found = builder.single("mul", x=found, y=2.0 ** 11)
    graph = builder.finish({"sums": found, "rows": builder.single("relu", x=small)})
    numbers, shares = rng.standard_normal((1, 8, 16, 16)) ** 3, rng.standard_normal((1, 8, 16, 1))
    numbers[:, :, 0] *= 300
    shares[:, :, 0] *= 2.0 ** -10
    inputs = {"x": numbers.astype(np.float16), "gates": shares.astype(np.float16)}
    made = run(compile(graph, samples=inputs, allow_host=False), inputs, "simulator?arithmetic=exact")
    for name, wanted in evaluate(graph, inputs).items():
        assert np.linalg.norm(made[name].astype(np.float64) - wanted) <= 1e-3 * np.linalg.norm(wanted)


def test_single_numbers_of_a_model_stay_constants_when_they_are_raised() -> None:
    """They are arrays without dimensions, of which numpy makes numbers."""
    stated = np.array(0.1, np.float32)
    value = RoundedConstant("number", TensorType("fp16", ()), stated.astype(np.float16), stated=stated)
    made = times(value, 3)
    assert made.array().shape == ()
    assert float(made.array()) == float(np.float16(0.8))


@pytest.mark.parametrize(("name", "bounds"), [("clip", {"alpha": -5000.0, "beta": 9000.0}),
                                              ("clamped_relu", {"alpha": 0.25, "beta": 6000.0}),
                                              ("thresholded_relu", {"alpha": 3000.0})])
def test_bounds_of_thousands_are_no_multiples(name: str, bounds: dict[str, float]) -> None:
    """Numbers far below the bounds pass as they are: what is held times a power of two is clipped elsewhere."""
    rng, builder = np.random.default_rng(4), GraphBuilder("far bounds")
    large = convolved(builder, builder.input("x", "fp16", (1, 8, 8, 8)), rng.standard_normal((8, 8)) * 4000)
    clipped = builder.single(name, x=large, **bounds)
    graph = builder.finish({"y": convolved(builder, clipped, rng.standard_normal((8, 8)) * 2.0 ** -14)})
    inputs = {"x": rng.standard_normal((1, 8, 8, 8)).astype(np.float16)}
    wanted = evaluate(graph, inputs)["y"]
    found = run(compile(graph, samples=inputs), inputs, "simulator?arithmetic=exact")["y"].astype(np.float32)
    assert np.linalg.norm(found - wanted) <= 2e-3 * np.linalg.norm(wanted)
