"""Scalar functions and arithmetic against onnxruntime and against the definitions of the standard library."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support.unary import FUNCTIONS

from openane.ops.functions import single_gelu

GRID = np.concatenate([np.linspace(-12, 12, 481), [-300, 300, 1e-6, -1e-6]]).astype(np.float32)
POSITIVE = np.concatenate([np.geomspace(1e-4, 6e4, 200)]).astype(np.float32)


def gelu_exact(x: float) -> float:
    return 0.5 * x * math.erfc(-x / math.sqrt(2))


def bessel(order: int) -> Callable[[float], float]:
    """I0 or I1 as the mean of exp(x cos t), or of that times cos t, over a turn."""
    turn = 2 * np.pi * np.arange(4096) / 4096
    return lambda x: math.inf if x > 100 else float(np.mean(np.exp(x * np.cos(turn)) * np.cos(order * turn)))


def scaled_bessel(order: int) -> Callable[[float], float]:
    """The same times exp(-|x|)."""
    turn = 2 * np.pi * np.arange(1 << 15) / (1 << 15)
    return lambda x: float(np.mean(np.exp(x * np.cos(turn) - abs(x)) * np.cos(order * turn)))


def derivative(function: Callable[[float], float]) -> Callable[[float], float]:
    """Of a smooth function of a number well above 0, by differences of four step widths."""
    def found(x: float) -> float:
        h = x * 2e-3
        near, far = ((function(x + step) - function(x - step)) / (2 * step) for step in (h, 2 * h))
        return (4 * near - far) / 3
    return found


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


DEFINITIONS: list[tuple[str, dict[str, Any], Callable[[float], float]]] = [
    ("abs", {}, abs),
    ("atan", {}, math.atan),
    ("ceil", {}, math.ceil),
    ("clamped_relu", {"alpha": 0.25, "beta": 3.0}, lambda x: min(x if x >= 0 else 0.25 * x, 3.0)),
    ("clip", {"alpha": -1.5, "beta": 2.0}, lambda x: min(max(x, -1.5), 2.0)),
    ("cos", {}, math.cos),
    ("cosh", {}, lambda x: math.cosh(x) if abs(x) < 80 else math.inf),
    ("elu", {"alpha": 0.75}, lambda x: x if x > 0 else 0.75 * math.expm1(x)),
    ("erf", {}, math.erf),
    ("exp2", {}, lambda x: math.pow(2, x) if x < 200 else math.inf),
    ("floor", {}, math.floor),
    ("gelu", {"mode": "EXACT"}, gelu_exact),
    ("gelu", {"mode": "TANH_APPROXIMATION"},
     lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))),
    ("gelu", {"mode": "SIGMOID_APPROXIMATION"}, lambda x: x * logistic(1.702 * x)),
    ("inverse", {"epsilon": 0.5}, lambda x: math.inf if x == -0.5 else 1 / (x + 0.5)),
    ("leaky_relu", {"alpha": 0.125}, lambda x: x if x > 0 else 0.125 * x),
    ("linear_activation", {"alpha": 2.0, "beta": -0.5}, lambda x: 2 * x - 0.5),
    ("relu", {}, lambda x: max(x, 0)),
    ("relu6", {}, lambda x: min(max(x, 0), 6)),
    ("round", {}, round),
    ("scaled_tanh", {"alpha": 1.5, "beta": 0.5}, lambda x: 1.5 * math.tanh(0.5 * x)),
    ("sigmoid", {}, logistic),
    ("sigmoid_hard", {"alpha": 0.25, "beta": 0.5}, lambda x: min(max(0.25 * x + 0.5, 0), 1)),
    ("sign", {}, lambda x: (x > 0) - (x < 0)),
    ("silu", {}, lambda x: x * logistic(x)),
    ("sin", {}, math.sin),
    ("sinh", {}, lambda x: math.sinh(x) if abs(x) < 80 else math.copysign(math.inf, x)),
    ("softplus", {}, lambda x: x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))),
    ("softsign", {}, lambda x: x / (1 + abs(x))),
    ("square", {}, lambda x: x * x),
    ("tan", {}, math.tan),
    ("tanh", {}, math.tanh),
    ("threshold", {"alpha": 0.5}, lambda x: max(x, 0.5)),
    ("thresholded_relu", {"alpha": 0.5}, lambda x: x if x >= 0.5 else 0.0),
]

DEFINITIONS += [
    ("erfc", {}, math.erfc), ("expm1", {}, lambda x: math.expm1(x) if x < 200 else math.inf),
    ("bessel_i0e", {}, scaled_bessel(0)), ("bessel_i1e", {}, scaled_bessel(1)),
]

ON_UNIT_INTERVAL = {"acos": math.acos, "asin": math.asin, "atanh": math.atanh,
                    "erfinv": lambda x: NormalDist().inv_cdf((1 + x) / 2) / math.sqrt(2)}

POSITIVE_DEFINITIONS: list[tuple[str, dict[str, Any], Callable[[float], float]]] = [
    ("log", {"epsilon": 0.25}, lambda x: math.log(x + 0.25)),
    ("rsqrt", {"epsilon": 0.25}, lambda x: 1 / math.sqrt(x + 0.25)),
    ("sqrt", {}, math.sqrt),
    ("inverse", {}, lambda x: 1 / (x + 1e-4)),
    ("log", {}, math.log),
    ("rsqrt", {}, lambda x: 1 / math.sqrt(x)),
    ("lgamma", {}, math.lgamma), ("log1p", {}, math.log1p),
]

WITHIN: list[tuple[str, float, float, float, Callable[[float], float]]] = [
    ("digamma", 0.02, 2000, 2e-6, derivative(math.lgamma)),
    ("erfcx", -4, 5, 1e-6, lambda x: math.exp(x * x) * math.erfc(x)),
    ("bessel_i0", -20, 20, 1e-6, bessel(0)), ("bessel_i1", -20, 20, 1e-6, bessel(1)),
    ("ndtri", 1e-6, 1 - 1e-6, 1e-6, NormalDist().inv_cdf),
]
"""Functions, from where to where they are tested, to how much, and what they are."""


@pytest.mark.parametrize(("name", "settings_", "definition"), DEFINITIONS)
def test_functions_follow_their_definitions(apply: Any, name: str, settings_: dict[str, Any],
                                            definition: Callable[[float], float]) -> None:
    with np.errstate(over="ignore"):
        expected = np.array([definition(float(value)) for value in GRID]).astype(np.float32)
    np.testing.assert_allclose(apply(name, x=GRID, **settings_), expected, rtol=2e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "settings_", "definition"), POSITIVE_DEFINITIONS)
def test_functions_of_positive_numbers(apply: Any, name: str, settings_: dict[str, Any],
                                       definition: Callable[[float], float]) -> None:
    expected = np.array([definition(float(value)) for value in POSITIVE], np.float32)
    np.testing.assert_allclose(apply(name, x=POSITIVE, **settings_), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ON_UNIT_INTERVAL)
def test_functions_on_the_unit_interval(apply: Any, name: str) -> None:
    x = np.linspace(-0.99, 0.99, 199, dtype=np.float32)
    expected = [ON_UNIT_INTERVAL[name](float(value)) for value in x]
    np.testing.assert_allclose(apply(name, x=x), expected, rtol=1e-6, atol=1e-7)


def test_exp_is_the_exponential(apply: Any) -> None:
    x = np.linspace(-80, 80, 100, dtype=np.float32)
    np.testing.assert_allclose(apply("exp", x=x), [math.exp(value) for value in x], rtol=1e-6)


@pytest.mark.parametrize(("name", "low", "high", "error", "definition"), WITHIN)
def test_functions_between_bounds(apply: Any, name: str, low: float, high: float, error: float,
                                  definition: Callable[[float], float]) -> None:
    x = (np.geomspace if low > 0.01 else np.linspace)(low, high, 197, dtype=np.float32)
    np.testing.assert_allclose(apply(name, x=x), [definition(float(value)) for value in x], rtol=error, atol=error)


def test_trigamma_obeys_its_recurrence_and_reflection(apply: Any) -> None:
    x = np.linspace(0.05, 30, 300, dtype=np.float32)
    far = sum(1 / (x.astype(np.float64) + n) ** 2 for n in range(4000))
    np.testing.assert_allclose(apply("trigamma", x=x) - apply("trigamma", x=x + 4000), far, rtol=1e-5)
    x = np.linspace(0.05, 0.95, 50, dtype=np.float32)
    np.testing.assert_allclose(apply("trigamma", x=-x) + apply("trigamma", x=1 + x), (np.pi / np.sin(np.pi * x)) ** 2,
                               rtol=2e-5)


def test_gamma_functions_have_poles_and_reflections(apply: Any) -> None:
    x = np.linspace(-7.9, -0.1, 79, dtype=np.float32)
    x = x[np.abs(x - np.rint(x)) > 0.05]
    np.testing.assert_allclose(apply("lgamma", x=x), [math.lgamma(value) for value in x], rtol=1e-6, atol=2e-6)
    wide = x.astype(np.float64)
    mirrored = apply("digamma", x=1 - x) - np.pi / np.tan(np.pi * wide)
    np.testing.assert_allclose(apply("digamma", x=x), mirrored, rtol=2e-5, atol=1e-5)
    poles = np.array([0, -1, -2, -50], np.float32)
    np.testing.assert_array_equal(apply("lgamma", x=poles), np.inf)
    np.testing.assert_array_equal(apply("trigamma", x=poles), np.inf)
    assert apply("digamma", x=poles[:1]) == -np.inf


def test_every_function_is_tested() -> None:
    listed = DEFINITIONS + POSITIVE_DEFINITIONS
    assert {name for name, *_ in [*listed, *WITHIN]} | {"exp", "trigamma"} | set(ON_UNIT_INTERVAL) == set(FUNCTIONS)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"clip"}))
def test_nan_stays_nan(name: str) -> None:
    settings_ = {"elu": (1,), "gelu": ("EXACT",), "inverse": (0,), "leaky_relu": (0.1,), "log": (0,), "rsqrt": (0,),
                 "scaled_tanh": (1, 1), "sigmoid_hard": (1, 0), "linear_activation": (1, 0), "clamped_relu": (1, 1),
                 "threshold": (1,), "thresholded_relu": (1,)}
    with np.errstate(invalid="ignore"):
        assert np.isnan(FUNCTIONS[name](np.array([np.nan]), *settings_.get(name, ()))).all()


@pytest.mark.parametrize(("name", "limits"), [
    ("erf", (-1, 1)), ("gelu", (0, np.inf)), ("sigmoid", (0, 1)), ("silu", (np.nan, np.inf)), ("tanh", (-1, 1)),
    ("softplus", (0, np.inf)), ("relu6", (0, 6)), ("exp2", (0, np.inf))])
def test_limits_at_infinity(apply: Any, name: str, limits: tuple[float, float]) -> None:
    np.testing.assert_array_equal(apply(name, x=np.array([-np.inf, np.inf], np.float32)), limits)


def test_erf_is_exact_to_fourteen_digits() -> None:
    x = np.random.default_rng(1).uniform(-7, 7, 5000)
    np.testing.assert_allclose(FUNCTIONS["erf"](x), [math.erf(value) for value in x], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("name", "settings_", "definition"), DEFINITIONS)
def test_functions_take_tensors_without_dimensions(apply: Any, name: str, settings_: dict[str, Any],
                                                   definition: Callable[[float], float]) -> None:
    found = apply(name, x=np.array(0.625, np.float32), **settings_)
    assert found.shape == ()
    np.testing.assert_allclose(found, definition(0.625), rtol=2e-7)


def test_gelu_has_the_digits_of_float32_where_it_is_small() -> None:
    x = np.concatenate([np.linspace(-8.9, 12, 20000), [1e-30, -1e-30, 0]]).astype(np.float32)
    expected = [value * math.erfc(-value / math.sqrt(2)) / 2 for value in x.astype(np.float64)]
    np.testing.assert_allclose(single_gelu(x, "EXACT"), expected, rtol=3e-7, atol=0)
    assert np.isnan(single_gelu(np.array([np.nan], np.float32), "EXACT")).all()


ONNX_BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "real_div": "Div", "maximum": "Max", "minimum": "Min",
               "pow": "Pow"}


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ONNX_BINARY)),
       hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
def test_arithmetic_broadcasts_as_onnx_does(apply: Any, onnx_node: Any, name: str, shapes: Any) -> None:
    generator = np.random.default_rng(3)
    x, y = (generator.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes.input_shapes)
    ours = apply(name, x=x, y=y)
    assert ours.shape == shapes.result_shape
    np.testing.assert_allclose(ours, onnx_node(ONNX_BINARY[name], x, y), rtol=1e-6)


def test_arithmetic_of_integers_stays_integer(apply: Any) -> None:
    x = np.array([[1, -2], [3, 4]], np.int32)
    np.testing.assert_array_equal(apply("add", x=x, y=5), x + 5)
    np.testing.assert_array_equal(apply("mul", x=x, y=x), x * x)


def test_a_scalar_constant_may_come_first(apply: Any) -> None:
    y = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(apply("sub", x=1, y=y), 1 - y)
