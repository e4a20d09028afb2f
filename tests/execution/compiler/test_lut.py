"""ane.lut: users' own functions fitted to a table, used in a graph, fused, printed and read back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.compiler import compile
from openane.formats.blob import read_blob
from openane.graph.mil import parse_mil, print_mil
from openane.ops import tables
from openane.ops.build import GraphBuilder


def mish(x):
    return x * np.tanh(np.logaddexp(0, x))


FUNCTIONS = {  # function, domain, what the worst error must stay below
    "mish": (mish, (-8.0, 8.0), 1.2e-2),
    "sinc": (lambda x: np.sinc(x / np.pi), (-12.0, 12.0), 1.3e-2),
    "gauss": (lambda x: np.exp(-x * x), (-3.0, 3.0), 5e-3),
    "line": (lambda x: 0.5 * x + 1, (-100.0, 100.0), 4e-2),
    "narrow": (np.cos, (100.0, 101.0), 5e-4),
    "small": (np.sin, (0.0, 2.0 ** -10), 1e-6),
    "constant": (lambda x: np.full_like(x, 3.0), (-1.0, 5.0), 0.0),
    "step": (lambda x: (x > 0).astype(float), (-1.0, 1.0), 1.0),
}


def graph_of(curve, shape, dtype="fp16"):
    builder = GraphBuilder()
    x = builder.input("x", dtype, shape)
    return builder.finish({"y": builder.single("lut_activation", x=x, **curve.operands)})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_the_engine_computes_what_the_fit_says(execute, name, mode):
    function, domain, bound = FUNCTIONS[name]
    curve = ane.lut(function, domain)
    assert curve.error <= bound
    assert curve.rms <= curve.error
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = np.where(np.isfinite(bits), bits, np.float16(0)).reshape(16, 64, 64)
    model = compile(graph_of(curve, x.shape))
    assert len(model.program.tasks) == 1
    assert not model.host_operations
    found = execute(model, {"x": x}, mode)["y"]
    inside = (x >= domain[0]) & (x <= domain[1])
    wanted = function(x[inside].astype(np.float64))
    rounding = 2.0 ** -10 * np.abs(wanted).max()
    assert np.abs(found[inside] - wanted).max() <= curve.error + rounding
    np.testing.assert_allclose(found, curve(x), rtol=2.0 ** -10, atol=2.0 ** -24)


def test_str_states_domain_and_error():
    text = str(ane.lut(mish, (-8, 8)))
    assert "[-8, 8]" in text
    assert "worst error" in text
    assert "root mean square" in text


def test_outside_the_domain_the_ends_go_on():
    curve = ane.lut(np.exp, (-2, 2))
    x = np.array([-np.inf, -5, -2, 2, 7, np.inf, np.nan])
    low, high = (float(np.float16(np.exp(v))) for v in (-2, 2))
    assert curve(x).tolist() == [low] * 3 + [high] * 4


def test_it_joins_a_convolution(compare):
    curve = ane.lut(np.tanh, (-4, 4))
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16, 8, 8))
    weight = np.random.default_rng(2).uniform(-0.2, 0.2, (16, 16, 3, 3)).astype(np.float16)
    value = builder.single("conv", x=x, weight=weight, pad_type="same")
    graph = builder.finish({"y": builder.single("lut_activation", x=value, **curve.operands)})
    assert curve.scale == 1
    model = compare(graph, absolute=5e-3)
    assert len(model.program.tasks) == 1


def test_mil_text_keeps_it(execute):
    curve = ane.lut(mish, (-3.3, 8))
    graph = graph_of(curve, (2, 3))
    text, blob = print_mil(graph)
    again = parse_mil(text, lambda path, offset: read_blob(blob, offset))
    x = np.array([[-4, -3, -1], [0, 2.5, 9]], np.float16)
    first, second = (execute(compile(g), {"x": x})["y"] for g in (graph, again))
    np.testing.assert_array_equal(first, second)
    assert compile(graph).program.constants == compile(again).program.constants


@settings(max_examples=20, deadline=None)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=5), low=st.floats(-50, 40), width=st.floats(0.1, 60),
       dtype=st.sampled_from(["fp16", "fp32"]))
def test_any_shape_and_domain(compare, shape, low, width, dtype):
    curve = ane.lut(lambda x: np.sin(x / width) * 3, (low, low + width))
    assert curve.error <= 3 / 32 ** 2 + 3e-3 + 2.0 ** -9 * abs(low) / width
    compare(graph_of(curve, tuple(shape), dtype), low=low, high=low + width, absolute=4e-3)


def test_the_worst_error_is_over_all_halves_of_the_domain():
    curve = ane.lut(mish, (-2, 3))
    x = tables.finite_halves()
    x = x[(x >= -2) & (x <= 3)]
    assert np.abs(curve(x) - mish(x)).max() == pytest.approx(curve.error)


@pytest.mark.parametrize(("function", "domain", "message"), [
    (np.tanh, (1, 1), "larger one"), (np.tanh, (0, 1e9), "finite fp16"), (np.tanh, 3, "two numbers"),
    (lambda x: 1 / x, (0, 1), "within fp16"), (lambda x: x[:3], (0, 1), "as many"),
    (lambda x: x * np.nan, (0, 1), "within fp16"),
])
def test_refusals_teach(function, domain, message):
    with pytest.raises(ane.GraphError, match=message):
        ane.lut(function, domain)


def test_malformed_nodes_are_refused():
    operands = ane.lut(np.tanh, (-1, 1)).operands
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4,))
    for name, wrong, message in (("knots", [0.0] * 32, "shape"), ("kind", "SQRT", "one of"), ("exponent", 99, "-15 to"),
                                 ("clips", [0.0, np.nan], "NaN"), ("scale", np.inf, "finite")):
        with pytest.raises(ane.GraphError, match=message):
            builder.single("lut_activation", x=x, **{**operands, name: wrong})
