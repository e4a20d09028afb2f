"""pow, floor_div and mod."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.compiler import compile
from openane.ops.build import GraphBuilder


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 8.0, 12.0, 0.5, -0.5, 1.5, 2.5, -1.0, -2.0, -1.5,
                                      -3.0, 0.3, 1.7, -0.7])
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_constant_exponents(execute, single, exponent, mode):
    x = np.geomspace(0.25, 2.0, 600).astype(np.float16).reshape(1, 6, 10, 10)
    graph = single("pow", x.shape, y=np.float16(exponent))
    model = compile(graph)
    found = execute(model, {"x": x}, mode)["result"]
    wanted = x.astype(np.float64) ** float(np.float16(exponent))
    bound = 2e-3 + (2e-3 + 1e-3 * abs(exponent)) * np.abs(wanted)
    if exponent * 2 != int(exponent * 2):
        bound = 2e-3 + (2e-3 + 6e-3 * abs(exponent)) * np.abs(wanted)
    assert (np.abs(found - wanted) <= bound).all(), np.abs(found / wanted - 1).max()


@pytest.mark.parametrize("exponent", [2.0, 3.0, 5.0, -1.0, -2.0, -3.0])
def test_whole_powers_of_negative_numbers(execute, single, exponent):
    x = np.linspace(-3, -0.5, 64).astype(np.float16).reshape(8, 8)
    found = execute(compile(single("pow", x.shape, y=np.float16(exponent))), {"x": x}, "exact")["result"]
    np.testing.assert_allclose(found, x.astype(np.float64) ** exponent, rtol=8e-3)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_exponents_computed_by_the_program(execute, mode):
    rng = np.random.default_rng(3)
    x, y = rng.uniform(2.0 ** -6, 8, (4, 16, 16)), rng.uniform(-3, 3, (16, 16))
    x, y = x.astype(np.float16), y.astype(np.float16)
    builder = GraphBuilder()
    operands = {"x": builder.input("x", "fp16", x.shape), "y": builder.input("y", "fp16", y.shape)}
    found = execute(compile(builder.finish({"z": builder.single("pow", **operands)})), {"x": x, "y": y}, mode)["z"]
    wanted = x.astype(np.float64) ** y
    exponent = np.abs(y * np.log2(x.astype(np.float64)))
    bound = (2e-3 + 6e-3 * np.abs(y) + 5e-4 * exponent) * wanted + 2.0 ** -24
    assert (np.abs(found - wanted) <= bound).all()


@pytest.mark.parametrize("target", ["h13", "h16", "h18"])
@pytest.mark.parametrize("shape", [(1, 64, 1, 1), (1, 64, 8, 8), (2, 3, 5, 7), (7, 1, 1, 1), (3, 70), (1, 300, 1, 1)])
def test_powers_of_one_shape(execute, shape, target):
    """In every layout that the generations keep the logarithm and the product in."""
    rng = np.random.default_rng(5)
    x, y = (rng.uniform(low, high, shape).astype(np.float16) for low, high in ((2.0 ** -6, 8), (-3, 3)))
    builder = GraphBuilder()
    operands = {"x": builder.input("x", "fp16", shape), "y": builder.input("y", "fp16", shape)}
    model = compile(builder.finish({"z": builder.single("pow", **operands)}), target=target)
    found = execute(model, {"x": x, "y": y}, "exact")["z"]
    wanted = x.astype(np.float64) ** y
    exponent = np.abs(y * np.log2(x.astype(np.float64)))
    assert (np.abs(found - wanted) <= (2e-3 + 6e-3 * np.abs(y) + 5e-4 * exponent) * wanted + 2.0 ** -24).all()


@pytest.mark.parametrize("target", ["h13", "h18"])
def test_zero_to_a_positive_power_is_zero(execute, target):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (3,)), builder.input("y", "fp16", (3,))
    model = compile(builder.finish({"z": builder.single("pow", x=x, y=y)}), target=target)
    inputs = {"x": np.zeros(3, np.float16), "y": np.array([0.5, 2, 0], np.float16)}
    assert execute(model, inputs, "exact")["z"].tolist() == [0, 0, 1]


def divided(execute, x, y, mode):
    """floor_div and mod of two inputs on the engine, dtype fp16."""
    builder = GraphBuilder()
    operands = {"x": builder.input("x", "fp16", x.shape), "y": builder.input("y", "fp16", y.shape)}
    outputs = {"quotient": builder.single("floor_div", **operands), "rest": builder.single("mod", **operands)}
    found = execute(compile(builder.finish(outputs)), {"x": x, "y": y}, mode)
    return found["quotient"], found["rest"]


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_integers_divide_exactly(execute, mode):
    x = np.arange(-2048, 2049, dtype=np.float16)[:, None]
    y = np.array([1, 2, 3, 7, 10, 13, 63, 100, 1000, 2047, 2048, -1, -2, -3, -5, -49, -700, -2048], np.float16)[None, :]
    quotient, rest = divided(execute, x, y, mode)
    wide = x.astype(np.float64), y.astype(np.float64)
    np.testing.assert_array_equal(quotient, np.floor_divide(*wide))
    np.testing.assert_array_equal(rest, np.mod(*wide))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 9999))
def test_any_integers_divide_exactly(execute, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-2048, 2049, (3, 40)), rng.integers(1, 2049, (3, 40)) * rng.choice([-1, 1], (3, 40))
    quotient, rest = divided(execute, x.astype(np.float16), y.astype(np.float16), "exact")
    np.testing.assert_array_equal(quotient, np.floor_divide(x, y))
    np.testing.assert_array_equal(rest, np.mod(x, y))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 9999), size=st.sampled_from([1.0, 10.0, 300.0]))
def test_fractions_divide_within_the_bound(execute, seed, size):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-size, size, (2, 60)).astype(np.float16)
    y = (rng.uniform(0.05, 8, (2, 60)) * rng.choice([-1, 1], (2, 60))).astype(np.float16)
    quotient, rest = divided(execute, x, y, "exact")
    exact = x.astype(np.float64) / y
    near = np.abs(exact - np.rint(exact)) <= 2.0 ** -10 * np.abs(exact)
    slack = np.where(near, 1, 0) + np.where(np.abs(exact) > 2048, 2.0 ** -9 * np.abs(exact), 0)
    assert (np.abs(quotient - np.floor(exact)) <= slack).all()
    error = np.abs(rest - np.mod(x.astype(np.float64), y))
    wrapped = np.minimum(error, np.abs(error - np.abs(y)))
    assert (wrapped <= 2.0 ** -9 * (np.abs(x) + np.abs(y))).all()


def test_int32_division_by_a_constant(execute):
    builder = GraphBuilder()
    x = builder.input("x", "int32", (5,))
    value = builder.single("cast", x=builder.single("floor_div", x=x, y=np.int32(7)), dtype="fp16")
    found = execute(compile(builder.finish({"z": value})), {"x": np.array([-8, -7, 0, 20, 2047], np.int32)})["z"]
    assert found.tolist() == [-2, -1, 0, 2, 292]
