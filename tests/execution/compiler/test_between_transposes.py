"""What stands between a transposition and its inverse runs in the layout before; written PReLU takes two tasks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.passes.between_transposes import between_transposes
from openane.passes.fold_constants import fold_constants
from openane.passes.order import simplify

RANDOM = np.random.default_rng(5)
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
Inner = Callable[[GraphBuilder, Value], Value]


def _half(*shape: int) -> np.ndarray:
    return RANDOM.uniform(0, 1, shape).astype(np.float16)


def _between(inner: Inner, back: list[int] = FIRST) -> Graph:
    """Two convolutions, channels last between them."""
    made = GraphBuilder()
    x = made.single("conv", x=made.input("x", "fp16", (1, 3, 6, 6)), weight=_half(6, 3, 1, 1))
    y = inner(made, made.single("transpose", x=x, perm=LAST))
    y = made.single("transpose", x=y, perm=back)
    return made.finish([made.single("conv", "y", x=y, weight=_half(4, y.shape[1], 1, 1))])


def _keras(slopes: np.ndarray) -> Inner:
    """As Keras writes PReLU: relu(x) - slopes * relu(-x)."""
    def inner(made: GraphBuilder, x: Value) -> Value:
        below = made.single("relu", x=made.single("mul", x=x, y=np.float16(-1)))
        return made.single("add", x=made.single("relu", x=x), y=made.single("mul", x=below, y=-slopes))
    return inner


def _sums(made: GraphBuilder, x: Value) -> Value:
    """Constants of fewer dimensions, of one element and of all, and two operands that are both transposed."""
    y = made.single("mul", x=made.single("add", x=x, y=_half(6)), y=_half(1, 1, 1, 1))
    return made.single("maximum", x=made.single("sub", x=_half(6, 6, 6), y=y), y=x)


@pytest.mark.parametrize("inner", [_keras(_half(6)), _keras(_half(6, 6, 6)), _keras(_half(6, 6, 6) + 1), _sums])
def test_such_a_region_is_turned_and_computes_the_same(inner: Inner, compare: Callable[..., object]) -> None:
    graph = _between(inner)
    turned = between_transposes(graph)
    turned.verify()
    assert "transpose" not in [node.op for node in fold_constants(turned).nodes]
    data = {"x": _half(1, 3, 6, 6) - np.float16(0.5)}
    np.testing.assert_array_equal(evaluate(turned, data)["y"], evaluate(graph, data)["y"])
    compare(graph, absolute=0.02)


@pytest.mark.parametrize(("slopes", "ops"), [
    (_half(6), ["prelu"]), (_half(6) + 2, ["prelu"]), (_half(6) * 3, ["prelu"]),
    (_half(6, 6, 6), ["mul", "maximum"]), (_half(6, 6, 6) + 1, ["mul", "minimum"]),
])
def test_written_rectifiers_are_one_operation_or_two(slopes: np.ndarray, ops: list[str]) -> None:
    assert [node.op for node in simplify(_between(_keras(slopes))).nodes] == ["conv", *ops, "conv"]


def test_slopes_on_both_sides_of_one_keep_both_sides() -> None:
    assert "add" in [node.op for node in simplify(_between(_keras(_half(6, 6, 6) * 2))).nodes]


def _summed(made: GraphBuilder, x: Value) -> Value:
    """Something that is no function of single elements reads it too."""
    y = made.single("add", x=x, y=_half(6))
    return made.single("add", x=y, y=made.single("reduce_sum", x=y, axes=[2], keep_dims=True))


def _spread(made: GraphBuilder, x: Value) -> Value:
    return made.single("add", x=x, y=made.single("slice_by_index", x=x, begin=[0] * 4, end=[1, 1, 1, 6]))


@pytest.mark.parametrize("graph", [
    _between(_summed), _between(_spread), _between(lambda made, x: made.single("relu", x=x), [0, 1, 3, 2])])
def test_other_regions_are_left_alone(graph: Graph) -> None:
    assert between_transposes(graph) is graph


def test_an_output_of_the_graph_is_left_alone() -> None:
    made = GraphBuilder()
    y = made.single("relu", "y", x=made.single("transpose", x=made.input("x", "fp16", (1, 3, 6, 6)), perm=LAST))
    graph = made.finish([y, made.single("transpose", "z", x=y, perm=FIRST)])
    assert between_transposes(graph) is graph
