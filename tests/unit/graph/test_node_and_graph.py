"""What a node and a graph know of themselves is found once."""

from __future__ import annotations

import numpy as np
import pytest

from openane.errors import GraphError
from openane.graph import Graph, Node, RoundedConstant, TensorType, Value

HALF = TensorType("fp16", (4,))


def chain() -> tuple[Value, Value, Value, Node, Node]:
    x, between, result = (Value(name, HALF) for name in ("x", "between", "result"))
    one = Value("one", HALF, np.ones(4, np.float16))
    return x, between, result, Node("add", {"x": x, "y": one}, (between,)), Node("concat", {
        "values": (between, one, x)}, (result,))


def test_operands_that_are_no_constants() -> None:
    x, between, _, first, second = chain()
    assert first.computed() == (x,)
    assert second.computed() == (between, x)
    assert second.computed() is second.computed()


def test_a_graph_that_was_verified_is_not_verified_again(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, result, first, second = chain()
    graph = Graph((x,), (first, second), (result,))
    graph.verify()
    monkeypatch.setattr(Node, "computed", None)
    graph.verify()


def test_a_graph_that_is_wrong_is_refused_every_time() -> None:
    x, _, result, first, second = chain()
    graph = Graph((x,), (second, first), (result,))
    for _ in range(2):
        with pytest.raises(GraphError, match="uses 'between' before it is made"):
            graph.verify()
    twice = Graph((x,), (first, first, second), (result,))
    for _ in range(2):
        with pytest.raises(GraphError, match="makes 'between' a second time"):
            twice.verify()


def test_what_was_found_of_a_graph_is_known_of_the_same_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, _, result, first, second = chain()
    graph = Graph((x,), (first, second), (result,))
    graph.verify()
    users = graph.users()
    marked = graph.with_metadata({"author": "nobody"})
    assert (marked.nodes, marked.outputs, marked.metadata) == (graph.nodes, graph.outputs, {"author": "nobody"})
    assert marked.users() is users
    other = Graph((x,), (first,), first.outputs, "other", {"a": "b"})
    within = graph.within(other)
    assert (within.nodes, within.outputs, within.name, within.metadata) == (
        graph.nodes, graph.outputs, "other", {"a": "b"})
    assert within.users() is users
    monkeypatch.setattr(Node, "computed", None)
    marked.verify()
    with pytest.raises(TypeError):
        within.verify()  # of which nobody knows whether it is sound


@pytest.mark.parametrize("shape", [(), (3,)])
def test_digits_of_what_is_held_times_a_power_of_two_are_an_array(shape: tuple[int, ...]) -> None:
    stated = np.full(shape, 0.1, np.float32)
    held = RoundedConstant("a", TensorType("fp16", shape), stated.astype(np.float16) * np.float16(4), stated=stated,
                           exponent=2)
    assert isinstance(held.digits(), np.ndarray)
    np.testing.assert_array_equal(held.digits(), stated * 4)
