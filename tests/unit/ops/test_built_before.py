"""Nodes that are built as others were: the same as where nothing is known of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from openane.errors import GraphError
from openane.graph import Node, RoundedArray, RoundedConstant, Value
from openane.ops import built_before
from openane.ops.build import GraphBuilder
from openane.ops.built_before import kept, met


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    for known in (kept(), met()):
        known.clear()
    yield
    for known in (kept(), met()):
        known.clear()


def built(op: str, **operands: Any) -> Node:
    """A node of x [2, 4, 6], fp16."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 4, 6))
    given = {name: {"x": x, "xs": (x, x)}.get(operand, operand) if isinstance(operand, str) else operand
             for name, operand in operands.items()}
    builder.add(op, "node", **given)
    return builder.finish([x]).nodes[0]


def told(value: Value) -> tuple[object, ...]:
    numbers = value.data.tobytes() if isinstance(value.data, np.ndarray) else value.data
    return type(value), value.name, value.type, numbers, value.digits() if isinstance(value, RoundedConstant) else None


def same(first: Node, second: Node) -> bool:
    sides = [(node.op, node.name, list(node.operands), [told(value) for value in (*node.values(), *node.outputs)])
             for node in (first, second)]
    return sides[0] == sides[1]


SMALL = np.array(1e-3, np.float16)
ALIKE = [
    ("softmax", {"x": "x", "axis": 1}, {"x": "x", "axis": 2}),
    ("softmax", {"x": "x", "axis": 1}, {"x": "x", "axis": np.array(1, np.int64)}),
    ("reduce_sum", {"x": "x", "axes": [1], "keep_dims": True}, {"x": "x", "axes": [1], "keep_dims": False}),
    ("reduce_sum", {"x": "x", "axes": [1, 2]}, {"x": "x", "axes": np.array([1, 0])}),
    ("mul", {"x": "x", "y": 0.0}, {"x": "x", "y": -0.0}),
    ("mul", {"x": "x", "y": 1}, {"x": "x", "y": 1.0}),
    ("elu", {"x": "x", "alpha": 0.1}, {"x": "x", "alpha": 0.1000001}),
    ("reshape", {"x": "x", "shape": [8, 6]}, {"x": "x", "shape": np.int32([6, 8])}),
    ("concat", {"values": "xs", "axis": 1}, {"values": "x", "axis": 1}),
    ("layer_norm", {"x": "x", "axes": [2], "epsilon": RoundedArray(SMALL, np.array(1e-3, np.float32))},
     {"x": "x", "axes": [2], "epsilon": RoundedArray(SMALL, np.array(1.0001e-3, np.float32))}),
    ("add", {"x": "x", "y": np.ones((4, 6), np.float16)}, {"x": "x", "y": np.zeros((4, 6), np.float16)}),
    ("add", {"x": "x", "y": np.ones((4, 6), np.float16)}, {"x": "x", "y": np.ones((4, 6), np.float32)}),
    ("tile", {"x": "x", "reps": np.int32([1] * 3)}, {"x": "x", "reps": np.int32([2] * 3)}),
    ("gather", {"x": "x", "indices": np.arange(20, dtype=np.int32) % 2}, {"x": "x", "indices": np.int32([1] * 20)}),
]


@pytest.mark.parametrize(("op", "first", "second"), ALIKE)
def test_a_node_that_is_nearly_another_is_not_built_as_it_was(op: str, first: dict[str, Any],
                                                              second: dict[str, Any]) -> None:
    alone = []
    for operands in (first, second):
        kept().clear()
        alone.append(built(op, **operands))
    kept().clear()
    for _ in range(3):
        assert [same(built(op, **operands), known)
                for operands, known in zip((first, second), alone, strict=True)] == [True, True]


def test_what_is_known_is_used_and_its_constants_are_a_nodes_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # what is met once is not kept
        assert not kept()
        first = built("conv", x="x", weight=np.ones((4, 4, 3), np.float16), pad_type="custom", pad=[1, 1])
    monkeypatch.setattr("openane.ops.build.result_types", None)  # nothing is inferred any more
    second = built("conv", x="x", weight=np.zeros((4, 4, 3), np.float16), pad_type="custom", pad=[1, 1])
    assert second.output.type == first.output.type
    assert not second["weight"].array().any()
    assert not np.shares_memory(first["pad"].array(), second["pad"].array())


def test_numbers_that_decide_a_type_are_read_each_time() -> None:
    """Where the numbers are more than are told: a mask, whose elements are counted."""
    masks = [np.arange(32) < count for count in (5, 9)]
    shapes = []
    for mask in masks * 3:
        builder = GraphBuilder()
        x = builder.input("x", "fp16", (2, 4, 6))
        builder.add("non_zero", "node", x=mask)
        shapes.append(builder.finish([x]).nodes[0].output.shape)
    assert shapes == [(5, 1), (9, 1)] * 3


def test_a_refusal_is_told_every_time() -> None:
    for _ in range(3):
        with pytest.raises(GraphError, match="'axis' must be"):
            built("softmax", x="x", axis=3)


def test_it_begins_anew_where_that_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(built_before, "MOST", 4)
    for axis in (-3, -2, -1, 0, 1, 2):
        for _ in range(2):
            assert built("softmax", x="x", axis=axis)["axis"].array() == axis
    assert len(kept()) == 2
