"""What operations state about themselves is so: their references are asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.random_graphs import draw_graph
from support.random_operands import TABLE

from openane.errors import GraphError
from openane.graph import Node, Value, numpy_type
from openane.ops import all_ops, get_op
from openane.ops.affine import factor, gain_and_offset, scales, summand, term
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate, evaluate_node
from openane.ops.spec import Movement

OPS = all_ops()


def named(condition: Any) -> list[str]:
    """The operations of which something is true, and that random operands are known for."""
    return sorted(name for name, op in OPS.items() if condition(op) and name in TABLE)


def nodes(op: str, count: int = 8) -> list[Node]:
    """Nodes of an operation with random operands, the first one not constant."""
    found: list[Node] = []
    for seed in range(400):
        try:
            graph = draw_graph(seed, TABLE, 1, op)
        except GraphError:
            continue
        found += [node for node in graph.nodes if node.op == op and not node.values()[0].constant]
        if len(found) >= count:
            break
    assert found, f"no operands of {op} fit"
    return found


def distinct(node: Node) -> dict[int, np.ndarray]:
    """Numbers for the operands a program computes, no two of them alike, none of them 0."""
    found, start = {}, 1
    for value in node.values():
        if not value.constant and id(value) not in found:
            count = value.type.elements
            found[id(value)] = np.arange(start, start + count).reshape(value.shape).astype(
                np.float32 if numpy_type(value.dtype).kind == "f" else numpy_type(value.dtype))
            start += count
    return found


@pytest.mark.parametrize("op", named(lambda op: op.moves is not None))
def test_what_moves_elements_makes_no_new_ones(op: str) -> None:
    moves = OPS[op].moves
    for node in nodes(op):
        if any(value.dtype == "bool" for value in (*node.values(), *node.outputs)) and moves is not Movement.SHAPE:
            continue  # too few numbers to tell them apart
        arrays = distinct(node)
        results = evaluate_node(node, arrays)
        if moves is Movement.MIX:
            constants = [value.array().ravel() for value in node.values() if isinstance(value.data, np.ndarray)]
            allowed = np.concatenate([*(array.ravel() for array in arrays.values()), *constants, np.zeros(1)])
            assert all(np.isin(result, allowed).all() for result in results)
            continue
        x = arrays[id(node["x"])]
        assert all(np.isin(result, x).all() for result in results)
        if moves is Movement.PART:
            continue
        result, = results
        assert set(np.unique(result)) == set(np.unique(x))
        if moves is Movement.SHAPE:
            np.testing.assert_array_equal(result.ravel(), x.ravel())
        if moves is Movement.DIMENSIONS:
            assert sorted(result.shape) == sorted(x.shape)
        if moves is Movement.REPEATS:
            assert all(many % one == 0 for many, one in zip(result.shape, x.shape, strict=True))


def test_every_kind_of_movement_has_an_operation() -> None:
    assert {op.moves for op in OPS.values()} == {None, *Movement}


@pytest.mark.parametrize("op", named(lambda op: op.hands_on and not op.casts))
def test_infinities_are_handed_on(op: str) -> None:
    """Of operands that are numbers; what a condition does not take has no part in the result."""
    builder = GraphBuilder()
    x, other = builder.input("x", "fp32", (4,)), builder.input("other", "fp32", (4,))
    taken = np.array([True, True, True, True])
    operands: dict[str, Any] = {"cond": taken, "a": x, "b": other} if op == "select" else {"x": x, "y": other}
    graph = builder.finish({"y": builder.single(op, **operands)})
    data = np.array([np.inf, -np.inf, np.inf, -np.inf], np.float32)
    found = evaluate(graph, {"x": data, "other": np.full(4, 2.0, np.float32)})["y"]
    np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("op", named(lambda op: op.shape_only))
def test_what_reads_shapes_reads_no_data(op: str) -> None:
    for node in nodes(op):
        given = {id(value): np.ones(value.shape, numpy_type(value.dtype)) for value in node.values()
                 if not value.constant}
        other = {key: array * 0 for key, array in given.items()}
        for first, second in zip(evaluate_node(node, given), evaluate_node(node, other), strict=True):
            np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("op", named(lambda op: op.scores))
def test_probabilities_keep_the_order_of_scores(op: str) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (3, 50))
    graph = builder.finish({"y": builder.single(op, x=x, axis=-1)})
    data = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    found = evaluate(graph, {"x": data})["y"]
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(found.argsort(-1), data.argsort(-1))


@pytest.mark.parametrize("op", sorted(name for name, op in OPS.items() if op.product is not None))
def test_a_product_takes_up_gains_and_offsets_of_its_channels(op: str) -> None:
    """Folded as passes fold: into the form with the channels first, along the axis of the result."""
    rng = np.random.default_rng(1)
    weights = {"conv": (6, 4, 3, 3), "conv_transpose": (4, 3, 2, 2), "linear": (6, 5), "matmul": (5, 6)}[op]
    weight = rng.standard_normal(weights).astype(np.float32)
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (2, 4, 8, 8) if len(weights) == 4 else (2, 3, 5))
    more = {"groups": 2} if op == "conv_transpose" else {}
    made = builder.single(op, x=x, **({"y": weight} if op == "matmul" else {"weight": weight}), **more)
    product, node = get_op(op).product, builder.finish([made]).nodes[-1]
    form = None if product is None else product.form(node, "folded")
    assert product is not None
    assert form is not None
    axis = product.axis % made.type.rank
    gain = rng.uniform(0.5, 2, made.shape[axis])
    seen, shape = product.by_channel(form["weight"].array().copy(), len(gain))
    seen *= gain.reshape(shape).astype(np.float32)
    scaled = seen.reshape(form["weight"].shape)
    operands = {**form.operands, "weight": Value("w", form["weight"].type, scaled)}
    data = {id(x): rng.standard_normal(x.shape).astype(np.float32)}
    wanted, = evaluate_node(node, data)
    found, = evaluate_node(Node(form.op, operands, form.outputs, "folded"), data)
    spread = gain.reshape([-1 if d == axis else 1 for d in range(made.type.rank)])
    np.testing.assert_allclose(found, wanted * spread, rtol=1e-4, atol=1e-4)


def test_traits_name_what_there_is() -> None:
    for op in OPS.values():
        parameters = {parameter.name for parameter in op.parameters}
        assert {*op.weights, *op.takes_up} <= parameters, op.name
        assert not op.table_of or OPS[op.table_of].unary is not None, op.name
        assert op.computed is None or op.weights, op.name


def test_what_a_node_does_beside_a_constant() -> None:
    builder = GraphBuilder()
    x, vector = builder.input("x", "fp16", (2, 3, 4)), np.array([[2], [4], [8]], np.float16)
    made = {name: builder.single(op, **operands) for name, op, operands in (
        ("times", "mul", {"x": x, "y": vector}), ("plus", "add", {"x": vector, "y": x}),
        ("less", "sub", {"x": x, "y": vector}), ("from", "sub", {"x": vector, "y": x}),
        ("by", "real_div", {"x": x, "y": vector}), ("over", "real_div", {"x": vector, "y": x}),
        ("most", "maximum", {"x": x, "y": vector}))}
    producers = builder.finish(made).producers()
    node = {name: producers[id(value)] for name, value in made.items()}
    numbers, ones, zeros = np.array([2.0, 4, 8]), np.ones(3), np.zeros(3)
    wanted = {"times": (numbers, zeros), "plus": (ones, numbers), "less": (ones, -numbers), "from": (-ones, numbers),
              "by": (1 / numbers, zeros)}
    for name, each in node.items():
        found = gain_and_offset(each, x, 1)
        assert (found is None) == (name not in wanted)
        if found is not None:
            np.testing.assert_array_equal(found, wanted[name])
    assert [name for name, each in node.items() if factor(each, x) is not None] == ["times"]
    assert [name for name, each in node.items() if summand(each, x) is not None] == ["plus"]
    assert [name for name, each in node.items() if term(each, x) is not None] == ["plus", "less", "from"]


@pytest.mark.parametrize(("op", "operands", "scaling"), [
    ("mul", {"y": 3.0}, True), ("mul", {"y": 1e-30}, False), ("real_div", {"y": 3.0}, True),
    ("real_div", {"y": 0.0}, False), ("add", {"y": 3.0}, False), ("sub", {"y": 3.0}, False)])
def test_scales(op: str, operands: dict[str, Any], scaling: bool) -> None:
    builder = GraphBuilder()
    graph = builder.finish([builder.single(op, x=builder.input("x", "fp32", (4,)), **operands)])
    assert scales(graph.nodes[-1]) == scaling
