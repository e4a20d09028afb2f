"""Softmax, logarithms of sums of exponentials, and functions, written out in other operations: of numbers whose
exponentials fp16 does not hold, within the errors docs/precision.md states."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import openane as ane
from openane.compiler import compile
from openane.graph import Value
from openane.ops import functions
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.order import simplify

SHAPE = (2, 6, 32)
Write = Callable[[GraphBuilder, Value], Value]


def built(write: Write, close: bool = False) -> tuple[ane.Model, list[str]]:
    """The model, and the operations it is made of."""
    builder = GraphBuilder(metadata={FUNCTIONS: CLOSE} if close else {})
    graph = builder.finish({"y": write(builder, builder.input("x", "fp16", SHAPE))})
    return compile(graph), [node.op for node in simplify(graph).nodes]


def drawn(reach: float) -> np.ndarray:
    """Numbers from -reach to reach."""
    return np.random.default_rng(3).uniform(-reach, reach, SHAPE).astype(np.float16)


def over(b: GraphBuilder, op: str, x: Value, axes: list[int], keep: bool = True) -> Value:
    return b.single(op, x=x, axes=axes, keep_dims=keep)


def less(b: GraphBuilder, x: Value, axes: list[int]) -> Value:
    return b.single("sub", x=x, y=over(b, "reduce_max", x, axes))


def shares(b: GraphBuilder, x: Value, axes: list[int]) -> Value:
    powers = b.single("exp", x=x)
    return b.single("real_div", x=powers, y=over(b, "reduce_sum", powers, axes))


def shares_by_inverse(b: GraphBuilder, x: Value) -> Value:
    total = over(b, "reduce_sum", b.single("exp", x=x), [1], False)
    inverse = b.single("inverse", x=b.single("expand_dims", x=total, axes=[1]), epsilon=0.0)
    return b.single("mul", x=inverse, y=b.single("exp", x=x))


SOFTMAX: dict[str, tuple[Write, tuple[int, ...]]] = {
    "without the largest": (lambda b, x: shares(b, x, [2]), (2,)),
    "with the largest": (lambda b, x: shares(b, less(b, x, [1]), [1]), (1,)),
    "by the inverse of two exponentials": (shares_by_inverse, (1,)),
    "over two axes": (lambda b, x: shares(b, x, [1, 2]), (1, 2)),
    "over two axes, with the largest": (lambda b, x: shares(b, less(b, x, [0, 1]), [0, 1]), (0, 1)),
}


@pytest.mark.parametrize("form", SOFTMAX)
@pytest.mark.parametrize("reach", [3.0, 1000.0, 30000.0])
def test_softmax(form: str, reach: float) -> None:
    write, axes = SOFTMAX[form]
    model, operations = built(write)
    assert operations.count("softmax") == (len(axes) == 1)
    x = drawn(reach)
    powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axes, keepdims=True))
    found = ane.run(model, {"x": x}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert np.abs(found - powers / powers.sum(axes, keepdims=True)).max() <= 4e-3


def test_shares_of_something_else_are_no_softmax() -> None:
    """The sum is of other exponentials, or over what the shares are not beside."""
    def doubled(b: GraphBuilder, x: Value) -> Value:
        total = over(b, "reduce_sum", b.single("exp", x=b.single("mul", x=x, y=0.5)), [2])
        return b.single("real_div", x=b.single("exp", x=x), y=total)

    def added(b: GraphBuilder, x: Value) -> Value:
        powers = b.single("exp", x=x)
        return b.single("real_div", x=powers, y=b.single("add", x=over(b, "reduce_sum", powers, [2]), y=1.0))

    wide = drawn(2.0).astype(np.float64)
    for write, total in ((doubled, np.exp(wide / 2).sum(2, keepdims=True)),
                         (added, np.exp(wide).sum(2, keepdims=True) + 1)):
        model, operations = built(write)
        assert "softmax" not in operations
        found = ane.run(model, {"x": drawn(2.0)}, "simulator?arithmetic=exact")["y"]
        np.testing.assert_allclose(found, np.exp(wide) / total, rtol=1e-2)


LOG_SUM: dict[str, tuple[Write, tuple[int, ...]]] = {
    "without the largest": (
        lambda b, x: b.single("log", x=over(b, "reduce_sum", b.single("exp", x=x), [2], False), epsilon=0.0), (2,)),
    "with the largest": (
        lambda b, x: b.single("add", y=over(b, "reduce_max", x, [1]), x=b.single(
            "log", x=over(b, "reduce_sum", b.single("exp", x=less(b, x, [1])), [1]), epsilon=0.0)), (1,)),
    "over two axes": (
        lambda b, x: b.single("log", x=over(b, "reduce_sum", b.single("exp", x=x), [0, 2]), epsilon=1e-12), (0, 2)),
}


@pytest.mark.parametrize("form", LOG_SUM)
@pytest.mark.parametrize("reach", [3.0, 1000.0, 30000.0])
def test_logarithm_of_a_sum_of_exponentials(form: str, reach: float) -> None:
    write, axes = LOG_SUM[form]
    model, operations = built(write)
    assert operations.count("reduce_max") == (2 if form == "with the largest" else 1)
    x = drawn(reach).astype(np.float64)
    largest = x.max(axes, keepdims=True)
    wanted = np.log(np.exp(x - largest).sum(axes, keepdims=True)) + largest
    found = ane.run(model, {"x": x.astype(np.float16)}, "simulator?arithmetic=exact")["y"].astype(np.float64)
    assert (np.abs(found.reshape(wanted.shape) - wanted) <= 8e-3 + 2 ** -10 * np.abs(wanted)).all()


def sigmoid_of(b: GraphBuilder, x: Value) -> Value:
    powers = b.single("exp", x=b.single("mul", x=x, y=-1.0))
    return b.single("real_div", x=1.0, y=b.single("add", x=powers, y=1.0))


def share_of_exponentials(b: GraphBuilder, x: Value) -> Value:
    powers = b.single("exp", x=x)
    return b.single("real_div", x=powers, y=b.single("add", x=1.0, y=powers))


def softplus_of(b: GraphBuilder, x: Value) -> Value:
    return b.single("log", x=b.single("add", x=b.single("exp", x=x), y=1.0), epsilon=0.0)


def tanh_of(b: GraphBuilder, x: Value) -> Value:
    rising, falling = b.single("exp", x=x), b.single("exp", x=b.single("mul", x=x, y=-1.0))
    return b.single("real_div", x=b.single("sub", x=rising, y=falling), y=b.single("add", x=rising, y=falling))


def gelu_of(b: GraphBuilder, x: Value) -> Value:
    bent = b.single("add", x=b.single("erf", x=b.single("real_div", x=x, y=2 ** 0.5)), y=1.0)
    return b.single("mul", x=b.single("mul", x=x, y=bent), y=0.5)


def gelu_of_tanh(b: GraphBuilder, x: Value) -> Value:
    cubic = b.single("mul", x=b.single("pow", x=x, y=3.0), y=0.044715)
    inner = b.single("mul", x=b.single("add", x=x, y=cubic), y=(2 / np.pi) ** 0.5)
    return b.single("mul", x=b.single("mul", x=x, y=0.5), y=b.single("add", x=b.single("tanh", x=inner), y=1.0))


def silu_of(b: GraphBuilder, x: Value) -> Value:
    return b.single("mul", x=x, y=b.single("sigmoid", x=x))


def silu_of_exponentials(b: GraphBuilder, x: Value) -> Value:
    powers = b.single("exp", x=b.single("mul", x=x, y=-1.0))
    return b.single("real_div", x=x, y=b.single("add", x=powers, y=1.0))


Reference = Callable[[np.ndarray], np.ndarray]
ALWAYS: dict[str, tuple[Write, str, Reference, float, float]] = {
    "sigmoid": (sigmoid_of, "sigmoid", functions.sigmoid, 4e-3, 0.0),
    "a share of exponentials": (share_of_exponentials, "sigmoid", functions.sigmoid, 4e-3, 0.0),
    "softplus": (softplus_of, "softplus", functions.softplus, 7e-3, 2 ** -11),
    "tanh": (tanh_of, "tanh", np.tanh, 2e-3, 0.0),
}
CLOSELY: dict[str, tuple[Write, str, Reference]] = {
    "gelu": (gelu_of, "gelu", lambda x: functions.gelu(x, "EXACT")),
    "gelu by tanh": (gelu_of_tanh, "gelu", lambda x: functions.gelu(x, "TANH_APPROXIMATION")),
    "silu": (silu_of, "silu", lambda x: x * functions.sigmoid(x)),
    "silu of exponentials": (silu_of_exponentials, "silu", lambda x: x * functions.sigmoid(x)),
}


@pytest.mark.parametrize("form", ALWAYS)
@pytest.mark.parametrize("reach", [2.0, 60.0, 60000.0])
def test_functions_of_exponentials(form: str, reach: float) -> None:
    write, name, reference, absolute, relative = ALWAYS[form]
    model, operations = built(write)
    assert operations == [name]
    x = drawn(reach)
    found, wanted = ane.run(model, {"x": x}, "simulator?arithmetic=exact")["y"], reference(x.astype(np.float64))
    assert (np.abs(found.astype(np.float64) - wanted) <= absolute + relative * np.abs(wanted)).all()


@pytest.mark.parametrize("close", [False, True], ids=["as-is", "close"])
@pytest.mark.parametrize("form", CLOSELY)
@pytest.mark.parametrize("reach", [0.02, 4.0, 30000.0])
def test_silu_and_gelu(form: str, reach: float, close: bool) -> None:
    """x times a share, which is off by little: small numbers keep their digits. One operation where functions are to be
    close, since that is as it is then computed."""
    write, name, reference = CLOSELY[form]
    model, operations = built(write, close)
    assert (operations == [name]) == close
    x = drawn(reach)
    found, wanted = ane.run(model, {"x": x}, "simulator?arithmetic=exact")["y"], reference(x.astype(np.float64))
    share = 1.5e-3 if close else 5e-3
    error = np.abs(found.astype(np.float64) - wanted)
    assert (error <= share * np.abs(x.astype(np.float64)) + 2.0 ** -24).all(), (error / np.abs(x)).max()


def hard(b: GraphBuilder, x: Value, clip: str = "relu6") -> Value:
    """relu6(x + 3)."""
    shifted = b.single("add", x=x, y=np.float16(3))
    if clip == "relu6":
        return b.single("relu6", x=shifted)
    if clip == "clip":
        return b.single("clip", x=shifted, alpha=0.0, beta=6.0)
    return b.single("minimum", x=b.single("maximum", x=shifted, y=np.float16(0)), y=np.float16(6))


def sixth(b: GraphBuilder, x: Value) -> Value:
    return b.single("mul", x=x, y=np.float16(1 / 6))


HARD: dict[str, tuple[Write, bool]] = {
    "as Paddle writes it": (lambda b, x: b.single("real_div", x=b.single("mul", x=x, y=hard(b, x, "clip")),
                                                  y=np.float16(6)), True),
    "as Keras writes it": (lambda b, x: b.single("mul", x=x, y=sixth(b, hard(b, x))), True),
    "the product first": (lambda b, x: sixth(b, b.single("mul", x=hard(b, x, "minima"), y=x)), True),
    "a gate": (lambda b, x: sixth(b, hard(b, x)), False),
    "a gate that is divided": (lambda b, x: b.single("real_div", x=hard(b, x, "clip"), y=np.float16(6)), False),
}


@pytest.mark.parametrize(("write", "product"), HARD.values(), ids=HARD)
def test_hard_functions_are_a_share_and_its_product(write: Write, product: bool) -> None:
    model, ops = built(write, close=True)
    assert ops == (["sigmoid_hard", "mul"] if product else ["sigmoid_hard"])
    x = drawn(8)
    wide = x.astype(np.float64)
    wanted = np.clip(wide / 6 + 0.5, 0, 1) * (wide if product else 1)
    found = ane.run(model, {"x": x})["y"]
    assert np.abs(found - wanted).max() < 4e-3
    assert len(model.programs[0].tasks) == (2 if product else 1)


OTHER: dict[str, Write] = {
    "another slope": lambda b, x: b.single("mul", x=x, y=b.single("mul", x=hard(b, x), y=np.float16(0.2))),
    "another end": lambda b, x: b.single("mul", x=x, y=sixth(b, b.single("clip", x=b.single(
        "add", x=x, y=np.float16(3)), alpha=0.0, beta=8.0))),
    "another tensor": lambda b, x: b.single("mul", x=b.single("abs", x=x), y=sixth(b, hard(b, x))),
}


@pytest.mark.parametrize("write", OTHER.values(), ids=OTHER)
def test_what_is_no_hard_function_stays(write: Write) -> None:
    model, ops = built(write, close=True)
    assert ops != ["sigmoid_hard", "mul"]
    x = drawn(8)
    builder = GraphBuilder()
    graph = builder.finish({"y": write(builder, builder.input("x", "fp16", SHAPE))})
    assert np.abs(ane.run(model, {"x": x})["y"] - evaluate(graph, {"x": x})["y"]).max() < 2e-2
