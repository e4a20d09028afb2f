"""Every function of one tensor over all fp16 inputs of its domain, in both arithmetics, within its stated bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.unary import BOUNDS, FUNCTIONS

from openane.compiler import compile
from openane.devices import run
from openane.errors import UnsupportedError
from openane.ops.accuracy import CLOSE, TINY
from openane.ops.accuracy import FUNCTIONS as FUNCTIONS_KEY
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.smooth import GELU_MODES

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = np.where(np.isfinite(HALVES), HALVES, np.float16(0)).reshape(64, 32, 32)
SETTINGS = {
    "clamped_relu": [{"alpha": 0.1, "beta": 3.0}, {"alpha": -0.5, "beta": 2.0}, {"alpha": 0.25, "beta": -1.0},
                     {"alpha": -1.0, "beta": -1.0}, {"alpha": 0.0, "beta": 1.0}],
    "clip": [{"alpha": -1.5, "beta": 2.0}, {"alpha": 2.0, "beta": 2.0}, {"alpha": 0.0, "beta": 65504.0}],
    "elu": [{"alpha": 0.75}, {"alpha": 1.0}],
    "gelu": [{"mode": mode} for mode in GELU_MODES],
    "inverse": [{"epsilon": 0.0}],
    "leaky_relu": [{"alpha": 0.01}, {"alpha": -2.0}],
    "linear_activation": [{"alpha": 2.0, "beta": 0.5}, {"alpha": -0.5}],
    "log": [{"epsilon": 0.0}],
    "rsqrt": [{"epsilon": 0.0}],
    "scaled_tanh": [{"alpha": 1.5, "beta": 0.5}, {"alpha": 0.75, "beta": -2.0}],
    "sigmoid_hard": [{"alpha": 0.2, "beta": 0.5}, {"alpha": -0.25, "beta": 0.25}, {"alpha": 0.0, "beta": 0.25}],
    "threshold": [{"alpha": 0.5}, {"alpha": -3.0}],
    "thresholded_relu": [{"alpha": 0.5}, {"alpha": 0.0}, {"alpha": -1.0}],
}
CASES = [(name, setting) for name in FUNCTIONS for setting in SETTINGS.get(name, [{}])]


@pytest.mark.parametrize(("name", "setting"), CASES)
def test_every_input_is_within_the_bound(execute, single, name, setting):
    model = compile(single(name, FINITE.shape, **setting))
    assert not model.host_operations
    bound, x = BOUNDS[name], FINITE.astype(np.float64)
    constants = {key: value if isinstance(value, str) else float(np.float16(value)) for key, value in setting.items()}
    if name == "linear_activation":
        constants = {"beta": 0.0, **constants}
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](x, *(constants[key] for key in sorted(constants)))
        rounded = wanted.astype(np.float16).astype(np.float64)
    inside = (x >= bound.low) & (x <= bound.high)
    for mode in ("exact", "fast"):
        found = execute(model, {"x": FINITE}, mode)["result"]
        with np.errstate(invalid="ignore"):
            near = np.abs(found - wanted) <= bound.absolute + bound.relative * np.abs(wanted)
        wrong = inside & ~near & (found != rounded)
        assert not wrong.any(), (mode, x[wrong][:3], found[wrong][:3], wanted[wrong][:3])


@pytest.mark.parametrize(("name", "setting", "worst", "tasks"), [
    ("sigmoid", {}, 1e-3, 2), ("silu", {}, 1.1e-3, 3), *(("gelu", {"mode": mode}, 1.2e-3, 3) for mode in GELU_MODES)])
def test_close_functions_err_by_a_share_of_their_input(execute, name, setting, worst, tasks):
    builder = GraphBuilder(metadata={FUNCTIONS_KEY: CLOSE})
    x = builder.input("x", "fp16", FINITE.shape)
    kept = compile(builder.finish({"result": builder.single(name, x=x, **setting)}))
    assert sum(len(each.tasks) for each in kept.programs) == tasks
    numbers = FINITE.astype(np.float64)
    wanted = FUNCTIONS[name](numbers, **setting)
    allowed = worst if name == "sigmoid" else worst * np.abs(numbers) + TINY
    for mode in ("exact", "fast"):
        error = np.abs(execute(kept, {"x": FINITE}, mode)["result"] - wanted)
        assert (error <= allowed).all(), (mode, numbers[error > allowed][:5], error[error > allowed][:5])


@pytest.mark.parametrize(("name", "setting", "absolute", "relative", "tasks"), [
    ("softplus", {}, 8 * TINY, 4e-3, 6), ("elu", {"alpha": 1.0}, 6e-4, 5e-4, 4),
    ("elu", {"alpha": 0.5}, 4e-4, 5e-4, 4)])
def test_close_functions_keep_the_digits_of_small_results(execute, name, setting, absolute, relative, tasks):
    builder = GraphBuilder(metadata={FUNCTIONS_KEY: CLOSE})
    x = builder.input("x", "fp16", FINITE.shape)
    kept = compile(builder.finish({"result": builder.single(name, x=x, **setting)}))
    assert sum(len(each.tasks) for each in kept.programs) == tasks
    numbers = FINITE.copy()
    numbers.flat[:2] = -np.inf, np.inf
    wanted = FUNCTIONS[name](numbers.astype(np.float64), **setting)
    for mode in ("exact", "fast"):
        found = execute(kept, {"x": numbers}, mode)["result"]
        np.testing.assert_allclose(found, wanted, rtol=relative, atol=absolute)


@pytest.mark.parametrize(("name", "relative", "tasks"), [
    ("log1p", 3e-3, 6), ("expm1", 4e-3, 7), ("erfc", 8e-3, 12), ("sinh", 4e-3, 11), ("atanh", 4e-3, 11)])
def test_small_results_keep_their_digits_where_they_count(execute, name, relative, tasks):
    builder, bound = GraphBuilder(), BOUNDS[name]
    x = builder.input("x", "fp16", FINITE.shape)
    kept = compile(builder.finish({"result": builder.single(name, x=x, small_results=True)}))
    assert sum(len(each.tasks) for each in kept.programs) == tasks
    numbers = FINITE.astype(np.float64)
    inside = (numbers >= bound.low) & (numbers <= bound.high)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](numbers)
    for mode in ("exact", "fast"):
        found = execute(kept, {"x": FINITE}, mode)["result"]
        np.testing.assert_allclose(found[inside], wanted[inside], rtol=relative, atol=TINY)


@pytest.mark.parametrize(("name", "absolute"), [("lgamma", 2e-2), ("digamma", 8e-3), ("trigamma", 1e-2)])
def test_gamma_functions_of_negative_numbers(execute, single, name, absolute):
    """Between the poles, where what is infinite there is taken from the distance to the nearest."""
    model, x = compile(single(name, FINITE.shape)), FINITE.astype(np.float64)
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](x)
    inside = (x > -128) & (x < 0) & (np.abs(wanted) < 60000)
    for mode in ("exact", "fast"):
        found = execute(model, {"x": FINITE}, mode)["result"]
        np.testing.assert_allclose(found[inside], wanted[inside], rtol=4e-3, atol=absolute)


def test_close_functions_beside_lookups_and_products(execute):
    """The wish outlives the passes and the cuts between programs, and nothing is fused behind a product."""
    builder, rng = GraphBuilder(metadata={FUNCTIONS_KEY: CLOSE}), np.random.default_rng(4)
    rows = builder.input("rows", "int32", (1, 7))
    table = builder.constant((rng.standard_normal((5000, 64)) * 0.02).astype(np.float16))
    found = builder.single("gather", x=table, indices=rows, axis=0)
    product = builder.single("linear", x=found, weight=(rng.standard_normal((96, 64)) / 8).astype(np.float16))
    graph = builder.finish({"result": builder.single("gelu", x=product, mode="EXACT")})
    inputs = {"rows": rng.integers(0, 5000, (1, 7)).astype(np.int32)}
    model = compile(graph)
    assert model.host_operations
    result, wanted = run(model, inputs, "simulator")["result"], evaluate(graph, inputs)["result"]
    assert np.abs(result - wanted).max() < 2e-3 * np.abs(wanted).max()


def test_bounds_in_words():
    assert str(BOUNDS["abs"]) == "exact"
    assert str(BOUNDS["sqrt"]) == "within 6e-08 + 0.002 of the value for x in [0, 65504]"
    assert str(BOUNDS["tanh"]) == "within 0.002 + 0.00049 of the value"


def test_integers(execute):
    builder = GraphBuilder()
    x = builder.input("x", "int32", (5,))
    for name in ("abs", "sign"):
        graph = builder.finish([builder.single("cast", x=builder.single(name, x=x), dtype="fp16")])
        numbers = np.array([-2048, -3, 0, 1, 2047], np.int32)
        found = execute(compile(graph), {"x": numbers})
        np.testing.assert_array_equal(next(iter(found.values())), FUNCTIONS[name](numbers))
    with pytest.raises(UnsupportedError, match="exact from -2048 to 2048"):
        compile(builder.finish([builder.single("square", x=x)]), allow_host=False)


@pytest.mark.parametrize("name", ["relu6", "sign", "floor", "tanh", "sigmoid", "atan", "exp2"])
def test_infinities_reach_the_limits(execute, single, name):
    x = np.array([[-np.inf, np.inf]], np.float16)
    found = execute(compile(single(name, x.shape)), {"x": x}, "exact")["result"]
    with np.errstate(all="ignore"):
        wanted = FUNCTIONS[name](x.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(FUNCTIONS)), shape=st.lists(st.integers(1, 5), min_size=1, max_size=5),
       dtype=st.sampled_from(["fp16", "fp32"]), seed=st.integers(0, 99))
def test_any_shape(execute, name, shape, dtype, seed):
    bound, setting = BOUNDS[name], SETTINGS.get(name, [{}])[0]
    builder = GraphBuilder()
    x = builder.input("x", dtype, tuple(shape))
    graph = builder.finish({"result": builder.single(name, x=x, **setting)})
    low, high = max(bound.low, -4.0), min(bound.high, 4.0)
    data = np.random.default_rng(seed).uniform(max(low, 2.0 ** -6) if low > -1 else low, high, shape)
    data = np.clip(data.astype(np.float16), low, high)
    wanted = evaluate(graph, {"x": data})["result"].astype(np.float64)
    found = execute(compile(graph), {"x": data})["result"]
    assert (np.abs(found - wanted) <= 1e-3 + bound.absolute + (bound.relative + 1e-3) * np.abs(wanted)).all()


@settings(max_examples=20, deadline=None)
@given(channels=st.integers(1, 20), rest=st.lists(st.integers(1, 6), min_size=1, max_size=3),
       slopes=st.sampled_from([(-1.5, 1.0), (1.0, 3.0), (-2.0, 3.0), (0.25, 0.25)]), seed=st.integers(0, 99))
def test_slopes_per_channel(compare, channels, rest, slopes, seed):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, channels, *rest))
    rng = np.random.default_rng(seed)
    alpha, beta = (rng.uniform(*slopes, channels).astype(np.float16) for _ in range(2))
    outputs = {"prelu": builder.single("prelu", x=x, alpha=alpha),
               "softplus": builder.single("softplus_parametric", x=x, alpha=alpha, beta=beta)}
    model = compare(builder.finish(outputs), seed, low=-8, high=8, absolute=3e-2, relative=4e-3)
    assert not model.host_operations


@pytest.mark.parametrize("slopes", [(0.5, 0.25, -1.0), (2.0, 4.0, 1.0), (0.5, 2.0, -3.0), (0.5, 0.5, 0.5)])
def test_slopes_are_exact_but_for_rounding(compare, single, slopes):
    graph = single("prelu", (1, 3, 8, 8), alpha=np.array(slopes, np.float16))
    compare(graph, absolute=2.0 ** -24, relative=2.0 ** -11)


def test_hard_swish_is_a_product(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 4, 4))
    gate = builder.single("sigmoid_hard", x=x, alpha=1 / 6, beta=0.5)
    compare(builder.finish({"y": builder.single("mul", x=x, y=gate)}), low=-6, high=6, absolute=4e-3)


@pytest.mark.parametrize(("name", "setting"), [("threshold", {"alpha": 0.25}), ("linear_activation", {"alpha": 2.0}),
                                               ("clamped_relu", {"alpha": 0.1, "beta": 0.5})])
def test_activations_join_a_convolution(compare, name, setting):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    weight = np.random.default_rng(1).uniform(-0.3, 0.3, (8, 8, 1, 1)).astype(np.float16)
    value = builder.single(name, x=builder.single("conv", x=x, weight=weight), **setting)
    model = compare(builder.finish({"y": value}), absolute=3e-3)
    assert len(model.program.tasks) == 1


@pytest.mark.parametrize(("name", "setting"), [
    ("linear_activation", {"alpha": 1e6}), ("leaky_relu", {"alpha": -1e5}), ("prelu", {"alpha": [1e6, 0.0]}),
    ("inverse", {"epsilon": 1e9})])
def test_constants_beyond_fp16_are_refused(name, setting):
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (1, 2, 4))
    with pytest.raises(UnsupportedError, match="finite in fp16"):
        compile(builder.finish({"y": builder.single(name, x=x, **setting)}))


def test_bounds_beyond_fp16_are_never_reached(execute):
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (1, 4))
    graph = builder.finish({"y": builder.single("clip", x=x, alpha=-3e38, beta=1e6),
                            "z": builder.single("threshold", x=x, alpha=-3e38)})
    data = np.array([[-65504, 0, 3, 65504]], np.float16)
    for found in execute(compile(graph), {"x": data}).values():
        np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("side", ["x", "y"])
def test_what_keeps_a_logarithm_from_zero_is_not_lost(execute, side):
    """1e-10 is 0 in fp16; the smallest number there takes its place."""
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (1, 4))
    other = "y" if side == "x" else "x"
    above = builder.single("add", **{side: x, other: 1e-10})
    model = compile(builder.finish({"result": builder.single("log", x=above, epsilon=0.0)}))
    found = execute(model, {"x": np.float32([[0, 1, 2, 0.5]])})["result"]
    np.testing.assert_allclose(found, [[np.log(2.0 ** -24), 0, np.log(2), np.log(0.5)]], atol=0.02)
