"""precision="safe": networks whose numbers leave the engine's range are computed as if they did not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from openane.compiler import Model, compile
from openane.compiler.states import reference
from openane.devices import open_device, run
from openane.errors import UnsupportedError
from openane.graph import Graph, Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.exponents import Relation, exponents
from openane.ops.measured_inputs import BeyondRangeWarning, beyond_ranges
from openane.ops.smooth import GELU_MODES
from openane.passes.rescale import rescale

SHAPE = (1, 8, 12, 12)


def half(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, np.float64).astype(np.float16)


def network(seed: int, scales: list[int], first: int = 0) -> Graph:
    """Convolutions of random weights, each times 2^scale, with residual sums, pools and slopes between; the last layer
    brings the result back. `first` is the exponent of the input's usual size."""
    rng, builder = np.random.default_rng(seed), GraphBuilder("network")
    x: Value = builder.input("x", "fp16", SHAPE)
    channels = SHAPE[1]
    for number, scale in enumerate(scales):
        made = int(rng.choice([8, 16]))
        weight = half(rng.standard_normal((made, channels, 3, 3)) * np.sqrt(2 / (9 * channels)) * 2.0 ** scale)
        bias = half(rng.standard_normal(made) * 0.1 * 2.0 ** min(10, first + sum(scales[:number + 1])))
        y = builder.single("conv", x=x, weight=weight, bias=bias, pad=[1] * 4, pad_type="custom", strides=[1, 1])
        y = builder.single("relu", x=y) if number % 2 else builder.single("leaky_relu", x=y, alpha=0.25)
        x = builder.single("add", x=x, y=y) if made == channels else y
        channels = made
    x = builder.single("avg_pool", x=x, kernel_sizes=[3, 3], strides=[3, 3], pad_type="valid", pad=[0] * 4)
    x = builder.single("concat", values=(x, builder.single("mul", x=x, y=-0.5)), axis=1)
    x = builder.single("reduce_max", x=x, axes=[2, 3], keep_dims=False)
    back = 2.0 ** -float(np.clip(first + sum(scales), -14, 15))
    y = builder.single("linear", x=x, weight=half(rng.standard_normal((5, 2 * channels)) * back))
    return builder.finish({"y": y})


def tasks(model: Model) -> int:
    return sum(len(program.tasks) for program in model.programs)


def error(graph: Graph, inputs: dict[str, np.ndarray], precision: str) -> tuple[float, int]:
    """The relative L2 error, and the tasks."""
    model = compile(graph, precision=precision, samples=inputs, allow_host=False)
    (found,), (wanted,) = run(model, inputs, "simulator?arithmetic=exact").values(), evaluate(graph, inputs).values()
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)), tasks(model)


@settings(max_examples=12, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(seed=st.integers(0, 10 ** 6), scales=st.lists(st.integers(-8, 8), min_size=3, max_size=6))
def test_layers_of_any_scale(seed: int, scales: list[int]) -> None:
    graph, plain = network(seed, scales), network(seed, [0] * len(scales))
    inputs = {"x": half(np.random.default_rng(seed).standard_normal(SHAPE))}
    if np.abs(evaluate(graph, inputs)["y"]).max() > 30000:  # beyond what a sum holds; see docs/precision.md
        return
    usual, _ = error(plain, inputs, "as-is")
    found, count = error(graph, inputs, "safe")
    assert found <= max(2 * usual, 5e-3)
    assert count <= error(graph, inputs, "as-is")[1] + 4


@pytest.mark.parametrize("apart", [0, 12, 14])
def test_branches_of_far_sizes_that_are_joined(apart: int) -> None:
    """Both are beyond fp16; where they are too far apart for one exponent, each has its own up to where they join."""
    rng, builder = np.random.default_rng(apart), GraphBuilder("branches")
    x = builder.input("x", "fp16", SHAPE)
    inputs = {"x": half(rng.standard_normal(SHAPE))}

    def layer(x: Value, channels: int, exponent: int) -> Value:
        weight = half(rng.standard_normal((channels, x.shape[1], 1, 1)) * 2.0 ** exponent)
        return builder.single("conv", x=x, weight=weight, pad=[0] * 4, pad_type="valid", strides=[1, 1])

    large = layer(x, 8, 10)
    small = builder.single("relu", x=layer(large, 8, 8))
    large = builder.single("relu", x=layer(layer(large, 8, apart // 2 + 4), 8, apart - apart // 2 + 4))
    joined = builder.single("concat", values=(small, large), axis=1)
    y = layer(layer(layer(joined, 8, -10), 8, -12), 4, -8 - apart)
    graph = builder.finish({"y": y})
    found, _ = error(graph, inputs, "safe")
    assert found < 5e-3


def test_repairs_cost_little_and_what_is_in_range_keeps_its_words() -> None:
    inputs = {"x": half(np.random.default_rng(7).standard_normal(SHAPE))}
    faint = {"x": inputs["x"] * np.float16(2 ** -9)}
    large, small, fine = network(5, [8, 8, 6, -4]), network(5, [-4, 0, -4, 4], -9), network(5, [0, 1, -1, 0])
    for graph, these in ((large, inputs), (small, faint)):
        before, after = error(graph, these, "as-is"), error(graph, these, "safe")
        assert not before[0] < 0.02
        assert after[0] < 2e-3
        assert after[1] <= before[1] + 2
    assert rescale(fine, [inputs]).graph is fine
    plain, safe = (compile(fine, precision=precision).program for precision in ("as-is", "safe"))
    assert [task.words for task in plain.tasks] == [task.words for task in safe.tasks]


def gated(function: str, settings: dict[str, str], scale: int) -> Graph:
    """Inverted blocks as mobile networks have them: convolutions of small weights, a function that is a share of its
    input, and a gate of a few numbers for each channel."""
    rng, builder = np.random.default_rng(11), GraphBuilder("gated", {FUNCTIONS: CLOSE})
    x = builder.input("x", "fp16", SHAPE)
    for _ in range(3):
        weight = half((rng.standard_normal((8, 8, 3, 3)) + 0.5) * np.sqrt(2 / 72) * 2.0 ** scale)
        y = builder.single("conv", x=x, weight=weight, pad=[1] * 4, pad_type="custom", strides=[1, 1])
        y = builder.single(function, x=y, **settings)
        mean = builder.single("reduce_mean", x=y, axes=[2, 3], keep_dims=True)
        inner = builder.single("conv", x=mean, weight=half(rng.standard_normal((8, 8, 1, 1))), pad_type="valid")
        x = builder.single("mul", x=y, y=builder.single("sigmoid", x=inner))
    y = builder.single("reduce_mean", x=x, axes=[2, 3], keep_dims=False)
    return builder.finish({"y": builder.single("linear", x=y, weight=half(rng.standard_normal((5, 8)) * 2.0 ** 10))})


@pytest.mark.parametrize(("function", "settings"), [("silu", {}), *(("gelu", {"mode": mode}) for mode in GELU_MODES)])
def test_shares_and_gates_of_small_numbers(function: str, settings: dict[str, str]) -> None:
    inputs = {"x": half(np.random.default_rng(2).standard_normal(SHAPE) + 1)}
    graph = gated(function, settings, -5)
    assert error(graph, inputs, "as-is")[0] > 0.05
    assert error(graph, inputs, "safe")[0] < 5e-3


def test_norms_and_scores_of_numbers_beyond_fp16() -> None:
    rng, builder = np.random.default_rng(3), GraphBuilder("beyond")
    x = builder.input("x", "fp16", (6, 32))
    big = builder.single("linear", x=x, weight=half(rng.standard_normal((32, 32)) * 4000))
    bigger = builder.single("linear", x=big, weight=half(rng.standard_normal((32, 32)) * 40))
    normal = builder.single("layer_norm", x=bigger, axes=[-1], epsilon=1e-5)
    scores = builder.single("softmax", x=bigger, axis=-1)
    graph = builder.finish({"normal": normal, "scores": scores})
    inputs = {"x": half(rng.standard_normal((6, 32)))}
    model, wanted = compile(graph, precision="safe", samples=inputs), evaluate(graph, inputs)
    found = run(model, inputs, "simulator")
    assert np.abs(found["normal"] - wanted["normal"]).max() < 0.02
    np.testing.assert_array_equal(found["scores"].argmax(-1), wanted["scores"].argmax(-1))
    assert np.isfinite(found["scores"]).all()
    assert any("held times" in str(concern) for concern in model.concerns)


def test_what_is_said_of_exponents_is_true() -> None:
    """An operand times 2^e gives a result times 2^e, wherever that is said."""
    rng, builder = np.random.default_rng(1), GraphBuilder()
    x, y = builder.input("x", "fp32", SHAPE), builder.input("y", "fp32", SHAPE)
    pool = {"kernel_sizes": [2, 2], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1]}
    one = {"relu": {}, "leaky_relu": {"alpha": 0.3}, "abs": {}, "transpose": {"perm": [0, 2, 1, 3]},
           "max_pool": pool, "avg_pool": pool, "reduce_mean": {"axes": [2]}, "reduce_min": {"axes": [1]},
           "prelu": {"alpha": rng.standard_normal(8)}, "tile": {"reps": [1, 2, 1, 1]},
           "pad": {"pad": [1, 1], "mode": "constant", "constant_val": 0.0},
           "reduce_l2_norm": {"axes": [1]}, "cumsum": {"axis": 1}, "band_part": {"lower": 1, "upper": 2},
           "upsample_bilinear": {"scale_factor_height": 2.0, "scale_factor_width": 2.0}}
    other = {"exp": {}, "relu6": {}, "tanh": {}, "sigmoid_hard": {"alpha": 0.2, "beta": 0.5}, "square": {},
             "pad": {"pad": [1, 1], "mode": "constant", "constant_val": 2.0}}
    nodes = [builder.single(name, x=x, **operands) for name, operands in one.items()]
    nodes += [builder.single(name, x=x, y=y) for name in ("add", "sub", "maximum", "minimum")]
    nodes.append(builder.single("concat", values=(x, y), axis=1))
    count = len(nodes)
    nodes += [builder.single(name, x=x, **operands) for name, operands in other.items()]
    graph = builder.finish({f"out{number}": node for number, node in enumerate(nodes)})
    made = {value.name: node for node in graph.nodes for value in node.outputs}
    inputs = {name: rng.standard_normal(SHAPE).astype(np.float32) for name in ("x", "y")}
    plain = evaluate(graph, inputs)
    scaled = evaluate(graph, {name: array * np.float32(8) for name, array in inputs.items()})
    for number, value in enumerate(nodes):
        tied = exponents(made[value.name]).relation in (Relation.TIED, Relation.SUMMED)
        assert tied is (number < count), value.name
        if tied:
            np.testing.assert_array_equal(scaled[f"out{number}"], plain[f"out{number}"] * 8, err_msg=value.name)


BOUNDED = {"clip": {"alpha": -1.0, "beta": 1.5}, "clamped_relu": {"alpha": 0.25, "beta": 6000.0},
           "thresholded_relu": {"alpha": 300.0}, "threshold": {"alpha": 0.1}}


@pytest.mark.parametrize(("name", "scaled"), [("clip", {"alpha", "beta"}), ("clamped_relu", {"beta"}),
                                              ("thresholded_relu", {"alpha"}), ("threshold", {"alpha"})])
def test_bounds_are_held_times_what_they_bound(name: str, scaled: set[str]) -> None:
    def graph(times: float) -> Graph:
        builder = GraphBuilder()
        settings = {key: value * (times if key in scaled else 1.0) for key, value in BOUNDED[name].items()}
        return builder.finish({"y": builder.single(name, x=builder.input("x", "fp32", SHAPE), **settings)})

    about = exponents(graph(1.0).nodes[0])
    assert about.relation is Relation.TIED
    assert set(about.operands) == {"x"} | scaled
    x = np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)
    np.testing.assert_allclose(evaluate(graph(8.0), {"x": x * 8})["y"], evaluate(graph(1.0), {"x": x})["y"] * 8)


def clipped(scale: float, behind: str) -> Graph:
    """Two convolutions, and a clip, of numbers of a scale, between them."""
    rng, builder = np.random.default_rng(0), GraphBuilder()

    def conv(x: Value, times: float) -> Value:
        weight = rng.standard_normal((16, x.shape[1], 3, 3)) / 12 * times
        return builder.single("conv", x=x, weight=weight.astype(np.float32), pad_type="same")

    x = builder.input("x", "fp32", (1, 16, 12, 12))
    y = builder.single("clip", x=conv(x, scale), alpha=-scale, beta=2 * scale)
    if behind == "concat":
        y = builder.single("concat", values=[y, conv(x, scale)], axis=1)
    if behind == "add":
        y = builder.single("add", x=y, y=conv(x, scale))
    return builder.finish({"y": conv(y, 1 / scale)})


@pytest.mark.parametrize("behind", ["", "concat", "add"])
@pytest.mark.parametrize("power", [-12, 14, 18])
def test_a_clip_hands_its_power_of_two_on(power: int, behind: str) -> None:
    graph, near = clipped(2.0 ** power, behind), clipped(1.0, behind)
    x = half(np.random.default_rng(1).standard_normal((1, 16, 12, 12)))
    model = compile(graph, samples={"x": x})
    assert len(model.program.tasks) == len(compile(near, samples={"x": x}).program.tasks)
    found, wanted = run(model, {"x": x})["y"], evaluate(graph, {"x": x.astype(np.float32)})["y"]
    assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)


def test_bounds_that_would_lose_their_digits_stay_as_they_are() -> None:
    rng, builder = np.random.default_rng(0), GraphBuilder()
    weight = (rng.standard_normal((8, 8)) * 2.0 ** 16).astype(np.float32)
    x = builder.single("linear", x=builder.input("x", "fp32", (4, 8)), weight=weight)
    y = builder.single("clip", x=x, alpha=1e-4, beta=np.inf)
    graph = builder.finish({"y": builder.single("inverse", x=y, epsilon=0.0)})
    x = half(rng.standard_normal((4, 8)))
    assert run(compile(graph, samples={"x": x}), {"x": x})["y"].max() == pytest.approx(1e4, rel=0.01)


def test_infinite_weights_of_a_graph_are_no_cause_to_rescale() -> None:
    builder = GraphBuilder()
    weight = np.full((8, 8, 1, 1), np.inf, np.float16)
    graph = builder.finish([builder.single("conv", x=builder.input("x", "fp16", SHAPE), weight=weight)])
    assert not np.isfinite(run(compile(graph), {"x": half(np.ones(SHAPE))})[graph.outputs[0].name]).any()


@pytest.mark.parametrize(("samples", "source"), [(True, "samples"), (False, "drawn inputs")])
def test_inputs_beyond_the_ranges_a_model_was_compiled_for_are_said(samples: bool, source: str, tmp_path: Path) -> None:
    inputs = {"x": half(np.random.default_rng(7).standard_normal(SHAPE))}
    compile(network(5, [0, 1, -1, 0]), samples=inputs if samples else None).save(tmp_path / "model.ane")
    model, larger = Model.load(tmp_path / "model.ane"), {"x": inputs["x"] * np.float16(100)}
    assert not beyond_ranges(model.metadata, {"x": inputs["x"] * np.float16(2)})
    found, = beyond_ranges(model.metadata, larger)
    assert found.name == "x"
    assert found.source == source
    assert found.largest == pytest.approx(100 * np.abs(inputs["x"]).max(), rel=1e-2)
    assert "may leave fp16" in str(found)
    assert model.metadata == model.graph.metadata
    assert not beyond_ranges({"range:x": "much"}, larger)
    with pytest.warns(BeyondRangeWarning, match="input 'x' reaches"):
        run(model, larger)
    run(compile(network(5, [0]), precision="as-is"), larger)


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"precision 'exact'.*as-is, safe, fast"):
        compile(network(1, [0]), precision="exact")


def test_a_bundle_of_a_rescaled_model_is_compiled_to_the_same_words(tmp_path: Path) -> None:
    """The graph it holds is the rescaled one, and says all of it."""
    model = compile(network(5, [8, 8, 6, -4]))
    assert any("held times" in str(concern) for concern in model.concerns)
    model.save(tmp_path / "model.ane")
    again = compile(Model.load(tmp_path / "model.ane").graph, precision="as-is")
    assert [task.words for task in again.program.tasks] == [task.words for task in model.program.tasks]


def test_states_are_as_they_were() -> None:
    rng, builder = np.random.default_rng(4), GraphBuilder("counting")
    x, state = builder.input("x", "fp16", (4, 32)), builder.state("kept", "fp16", (4, 32))
    before = builder.read(state)
    large = builder.single("linear", x=x, weight=half(rng.standard_normal((32, 32)) * 3000))
    larger = builder.single("linear", x=large, weight=half(rng.standard_normal((32, 32)) * 30))
    back = builder.single("linear", x=larger, weight=half(rng.standard_normal((32, 32)) * 2.0 ** -20))
    after = builder.single("add", x=before, y=back)
    builder.write(state, after)
    graph = builder.finish({"y": after})
    inputs = {"x": half(rng.standard_normal((4, 32)))}
    model = compile(graph, samples=inputs)
    assert any("held times" in str(concern) for concern in model.concerns)
    with open_device("simulator?arithmetic=exact") as device, device.load(model) as loaded:
        once, twice = (loaded.run(inputs)["y"].astype(np.float64) for _ in range(2))
    wanted = reference(graph, inputs)["y"]
    np.testing.assert_allclose(once, wanted, rtol=0, atol=0.01 * np.abs(wanted).max())
    np.testing.assert_allclose(twice, 2 * wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
