"""Operators that formats have and MIL has not: each computes its formula, in nodes named after the operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openane.graph import Value
from openane.importers import composites
from openane.importers.step import ImportStep
from openane.ops import get_op
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

X = np.linspace(-6, 6, 49, dtype=np.float32)


def started() -> tuple[ImportStep, Value]:
    builder = GraphBuilder()
    return ImportStep("Format Op 'it'", "y", builder), builder.input("x", "fp32", X.shape)


def sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


def elu(x: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


@pytest.mark.parametrize(("build", "wanted"), [
    (composites.hard_sigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (composites.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (composites.mish, lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (lambda s, x: composites.swish(s, x, 1.0), lambda x: x * sigmoid(x)),
    (lambda s, x: composites.swish(s, x, 1.5), lambda x: x * sigmoid(1.5 * x)),
    (lambda s, x: composites.scaled_elu(s, x, 0.75), lambda x: elu(x, 0.75)),
    (lambda s, x: composites.scaled_elu(s, x, 1.0, 2.0, 0.5), lambda x: 2 * elu(x / 2, 1.0)),
    (lambda s, x: composites.clipped(s, x, 0.0, 6.0), lambda x: np.clip(x, 0, 6)),
    (lambda s, x: composites.clipped(s, x, 0.0, np.inf), lambda x: np.maximum(x, 0)),
    (lambda s, x: composites.clipped(s, x, -1.0, np.inf), lambda x: np.maximum(x, -1)),
    (lambda s, x: composites.clipped(s, x, -np.inf, 2.0), lambda x: np.minimum(x, 2)),
    (lambda s, x: composites.clipped(s, x, -1.0, 2.0), lambda x: np.clip(x, -1, 2)),
    (lambda s, x: composites.clipped(s, x, 0.0, 5.0), lambda x: np.clip(x, 0, 5)),
    (lambda s, x: composites.power(s, x, 2.0), np.square),
    (lambda s, x: composites.power(s, s.add("abs", "size", x=x), 0.5), lambda x: np.sqrt(np.abs(x))),
    (lambda s, x: composites.chained(s, "sub", [x, x, x]), lambda x: x - x - x),
    (lambda s, x: composites.mean_of(s, [x, x, x]), lambda x: x),
    (lambda s, x: composites.scaled(s, x, 2.0, 3.0), lambda x: 2 * x + 3),
    (lambda s, x: composites.scaled(s, x, 2.0, None), lambda x: 2 * x),
    (lambda s, x: composites.scaled(s, x, None, 3.0), lambda x: x + 3),
    (lambda s, x: composites.log_softmax(s, x, 0), lambda x: x - x.max() - np.log(np.exp(x - x.max()).sum())),
    (lambda s, x: composites.log_base_two(s, s.add("exp2", "power", x=x)), lambda x: x),
])
def test_composites(build: Callable[[ImportStep, Value], Any], wanted: Callable[[np.ndarray], np.ndarray]) -> None:
    step, x = started()
    graph = step.builder.finish([build(step, x)])
    found = next(iter(evaluate(graph, {"x": X}).values()))
    np.testing.assert_allclose(found, wanted(X.astype(np.float64)), rtol=2e-3, atol=2e-3)


def test_powers_that_are_no_simpler_are_left_to_the_format() -> None:
    step, x = started()
    assert composites.power(step, x, 1.0) is x
    assert composites.power(step, x, 3.0) is None


def test_what_changes_nothing_adds_nothing() -> None:
    step, x = started()
    assert composites.clipped(step, x, -np.inf, np.inf) is x
    assert composites.scaled(step, x, None, None) is x
    assert composites.chained(step, "add", [x]) is x


@pytest.mark.parametrize(("build", "nodes"), [
    (composites.hard_sigmoid, {"y": "sigmoid_hard"}),
    (lambda s, x: composites.hard_sigmoid(s, x, "gate"), {"y_gate": "sigmoid_hard"}),
    (lambda s, x: composites.swish(s, x, 1.0), {"y": "silu"}),
    (lambda s, x: composites.swish(s, x, 2.0), {"y_scaled": "mul", "y_gate": "sigmoid", "y": "mul"}),
    (composites.mish, {"y_plus": "softplus", "y_gate": "tanh", "y": "mul"}),
    (lambda s, x: composites.scaled_elu(s, x, 1.0), {"y": "elu"}),
    (lambda s, x: composites.scaled_elu(s, x, 1.0, 2.0, 0.5), {"y_scaled": "mul", "y_inner": "elu", "y": "mul"}),
    (lambda s, x: composites.clipped(s, x, 0.0, 6.0), {"y": "relu6"}),
    (lambda s, x: composites.clipped(s, x, 0.0, np.inf), {"y": "relu"}),
    (lambda s, x: composites.clipped(s, x, 1.0, np.inf), {"y": "maximum"}),
    (lambda s, x: composites.clipped(s, x, -np.inf, 1.0), {"y": "minimum"}),
    (lambda s, x: composites.clipped(s, x, 0.0, 5.0), {"y": "clip"}),
    (lambda s, x: composites.power(s, x, 2.0), {"y": "square"}),
    (lambda s, x: composites.power(s, x, 0.5), {"y": "sqrt"}),
    (lambda s, x: composites.chained(s, "add", [x, x, x]), {"y_1": "add", "y": "add"}),
    (lambda s, x: composites.mean_of(s, [x, x, x]), {"y_1": "add", "y_sum": "add", "y": "mul"}),
    (lambda s, x: composites.scaled(s, x, 2.0, 3.0), {"y_scaled": "mul", "y": "add"}),
    (lambda s, x: composites.log_softmax(s, x, 0), {
        "y_max": "reduce_max", "y_below": "sub", "y_exp": "exp", "y_sum": "reduce_sum", "y_log": "log", "y": "sub"}),
    (composites.log_base_two, {"y_log": "log", "y": "mul"}),
])
def test_nodes_are_few_and_named_after_their_part(build: Callable[[ImportStep, Value], Value],
                                                  nodes: dict[str, str]) -> None:
    step, x = started()
    graph = step.builder.finish([build(step, x)])
    assert {node.name: node.op for node in graph.nodes} == nodes
    assert {node.source for node in graph.nodes} == {"Format Op 'it'"}


def test_a_format_adds_the_nodes_of_a_chain_its_own_way() -> None:
    step, x = started()
    parts: list[str] = []

    def adding(op: str, part: str, **operands: Value) -> Value:
        parts.append(part)
        return step.add(op, part, **operands)

    composites.chained(step, "maximum", [x, x, x, x], adding, "last")
    composites.mean_of(step, [x, x], adding)
    assert parts == ["1", "2", "last", "sum"]


def test_modes_of_gelu_are_those_of_the_operation() -> None:
    mode = next(each for each in get_op("gelu").parameters if each.name == "mode")
    assert set(composites.GELU_MODES.values()) <= set(mode.choices)
    assert composites.GELU_MODES["none"] == mode.default
