"""What is decided otherwise because numbers are nearly the same, and tables that are coarse for what they give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import openane as ane
from openane.checking import Cause
from openane.graph import Graph
from openane.ops.build import GraphBuilder


def test_a_choice_between_near_numbers_is_no_cancellation() -> None:
    """Scores that come in pairs: which of a pair is the larger is decided by what rounding made of them."""
    b, rng = GraphBuilder(), np.random.default_rng(2)
    weight = np.repeat(rng.standard_normal((16, 32)), 2, axis=0) + rng.standard_normal((32, 32)) * 2e-4
    scores = b.single("linear", x=b.input("x", "fp16", (64, 32)), weight=weight.astype(np.float32), name="scores")
    graph = b.finish({"y": b.single("reduce_argmax", x=b.single("tanh", x=b.single("mul", x=scores, y=0.1)), axis=-1,
                                    keep_dims=False, name="asked")})
    found = ane.check(graph, {"x": rng.standard_normal((64, 32)).astype(np.float16)}, precision="as-is")
    assert not found.right
    assert found.cause is not None
    assert found.cause.operation.startswith("reduce_argmax 'asked'")
    assert found.cause.cause is Cause.CHOICE
    assert "decides between numbers of which some are nearly the same" in found.cause.sentence


def test_a_comparison_that_comes_out_otherwise_is_a_choice() -> None:
    b, rng = GraphBuilder(), np.random.default_rng(0)
    weights = [(rng.standard_normal(shape) * 0.2).astype(np.float16) for shape in ((48, 32), (64, 48))]
    act = b.single("gelu", "act", x=b.single("linear", x=b.input("x", "fp16", (64, 32)), weight=weights[0]),
                   mode="EXACT")
    graph = b.finish({"y": b.single("greater", x=b.single("linear", x=act, weight=weights[1]), y=0.1, name="asked")})
    found = ane.check(graph, {"x": rng.standard_normal((64, 32)).astype(np.float16)}, precision="as-is")
    assert not found.right
    assert found.cause is not None
    assert (found.cause.operation, found.cause.cause) == ("greater 'asked'", Cause.CHOICE)


def small_gelu() -> Graph:
    """A gelu of numbers near 0.05, whose table errs by up to 0.006, in front of a norm."""
    b, rng = GraphBuilder("small"), np.random.default_rng(0)
    weight = (rng.standard_normal((64, 32)) * 0.01).astype(np.float16)
    first = b.single("linear", "first", x=b.input("x", "fp16", (1, 16, 32)), weight=weight)
    act = b.single("gelu", "act", x=first, mode="EXACT")
    return b.finish({"y": b.single("layer_norm", "norm", x=act, axes=[-1], epsilon=1e-6)})


@pytest.mark.parametrize("precision", ["safe", "as-is"])
def test_a_table_is_named_and_not_the_multiple_before_it(precision: str) -> None:
    """With `safe` the linear layer's result is held times a power of two, by operations of other names."""
    sample = {"x": np.random.default_rng(1).standard_normal((1, 16, 32)).astype(np.float16)}
    found = ane.check(small_gelu(), sample, precision=precision)
    assert not found.right
    assert found.cause is not None
    assert (found.cause.operation, found.cause.cause) == ("gelu 'act'", Cause.TABLE)
    assert "computes gelu by a table" in found.cause.sentence


def test_compiling_warns_of_tables_that_are_coarse_for_what_they_give() -> None:
    graph = small_gelu()
    sample = {"x": np.random.default_rng(1).standard_normal((1, 16, 32)).astype(np.float16)}
    [said] = [each for each in ane.compile(graph, samples=sample).concerns if "table that errs" in each.what]
    assert said.operation == "gelu 'act'"
    close = replace(graph, metadata={**graph.metadata, "functions": "close"})
    assert "functions" in said.remedy
    assert not any("table that errs" in each.what for each in ane.compile(close, samples=sample).concerns)
    assert ane.check(close, sample).right
    larger = {"x": 20 * sample["x"]}
    assert not any("table that errs" in each.what for each in ane.compile(graph, samples=larger).concerns)
