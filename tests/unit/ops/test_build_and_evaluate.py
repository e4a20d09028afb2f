"""Building graphs, running them by reference, and the rules of the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openane.chips import get_chip
from openane.errors import GraphError
from openane.graph import Graph, Node, TensorType, Value
from openane.ops import all_ops, arguments, get_op
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.rules import broken_rules, operands_text, sentence

LIMITS = replace(get_chip("h13").limits, l2_size=4096, kernel_memory=4096, width=64, height=64, channels=32, groups=8,
                 depth=4, kernel_width=5, kernel_height=3, padding=2, stride=2)


def test_a_small_network_runs() -> None:
    builder = GraphBuilder("classifier", {"author": "nobody"})
    x = builder.input("x", "fp16", (1, 1, 4, 4))
    features = builder.single("conv", "stem", x=x, weight=np.ones((2, 1, 3, 3)), bias=[0.5, -100], pad_type="same")
    pooled = builder.single("reduce_mean", x=builder.single("relu", x=features), axes=[2, 3])
    graph = builder.finish({"scores": builder.single("softmax", "scores", x=pooled, axis=-1), "features": features})
    assert [value.name for value in graph.inputs + graph.outputs] == ["x", "scores", "features"]
    assert graph.nodes[-1].op == "identity"
    outputs = evaluate(graph, {"x": np.ones((1, 1, 4, 4), np.float16)})
    np.testing.assert_array_equal(outputs["features"][0, 0, :2], [[4.5, 6.5, 6.5, 4.5], [6.5, 9.5, 9.5, 6.5]])
    np.testing.assert_allclose(outputs["scores"], [[1 / (1 + np.exp(-6.75)), 1 / (1 + np.exp(6.75))]], rtol=1e-6)
    assert graph.metadata == {"author": "nobody"}


def test_operands_take_the_type_the_parameter_asks_for() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3))
    node = builder.finish([builder.single("mul", x=x, y=2)]).nodes[0]
    assert node["y"].type == TensorType("fp16", ())
    builder.add("reduce_sum", x=x, axes=np.array([0], np.int64), keep_dims=True)
    node = builder.finish([x]).nodes[1]
    assert (node["axes"].dtype, node["keep_dims"].dtype) == ("int32", "bool")
    builder.add("inverse", x=x)
    node = builder.finish([x]).nodes[2]
    assert node["epsilon"].array() == np.float16(1e-4)
    assert node["epsilon"].dtype == "fp16"
    builder.add("gelu", x=x)
    assert builder.finish([x]).nodes[3]["mode"].data == "EXACT"


@pytest.mark.parametrize(("data", "dtype"), [
    (1, "int32"), (1.5, "fp32"), (True, "bool"), ("text", "string"), ([1, 2], "int32"), ([], "fp32"),
    (2 ** 40, "int64"), (-2 ** 63, "int64"), (np.float16(1), "fp16"), (np.arange(3), "int64"), (np.ones(2), "fp64")])
def test_constants_keep_the_type_of_arrays_and_narrow_python_numbers(data: Any, dtype: str) -> None:
    assert GraphBuilder().constant(data).dtype == dtype


@pytest.mark.parametrize("data", [object(), [[1], [1, 2]], 1j, {"a": 1}])
def test_constants_that_are_not_numbers_are_refused(data: Any) -> None:
    with pytest.raises(GraphError):
        GraphBuilder().constant(data)


def test_names_are_made_unique() -> None:
    builder = GraphBuilder()
    x = builder.input("relu", "fp32", (2,))
    first, second = builder.single("relu", x=x), builder.single("relu", x=x)
    assert {x.name, first.name, second.name} == {"relu", "relu_1", "relu_2"}
    assert builder.constant(1, "relu").name == "relu_3"
    with pytest.raises(GraphError, match="the name is taken"):
        builder.input("relu_1", "fp32", (2,))
    with pytest.raises(GraphError, match="output 'relu': the name is taken"):
        builder.finish({"relu": first})


def test_outputs_have_their_names_and_results_give_way() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp32", (2,))
    relu = builder.single("relu", x=x)
    doubled = builder.single("add", x=relu, y=relu)
    graph = builder.finish({"relu": doubled, "both": relu})
    assert [value.name for value in graph.outputs] == ["relu", "both"]
    outputs = evaluate(graph, {"x": np.float32([-1, 3])})
    np.testing.assert_array_equal(outputs["relu"], [0, 6])
    np.testing.assert_array_equal(outputs["both"], [0, 3])


@pytest.mark.parametrize(("dtype", "shape"), [("fp8", (1,)), ("fp16", (0,)), ("fp16", (-1, 2)), ("fp16", (1.5,)),
                                              ("fp16", (2 ** 20, 2 ** 20))])
def test_inputs_have_static_types(dtype: str, shape: tuple[Any, ...]) -> None:
    with pytest.raises(GraphError):
        GraphBuilder().input("x", dtype, shape)


def test_values_of_another_graph_are_refused() -> None:
    builder = GraphBuilder()
    builder.add("relu", x=Value("stranger", TensorType("fp16", (1,))))
    with pytest.raises(GraphError, match="stranger"):
        builder.finish([])


def doubled(dtype: str) -> Graph:
    builder = GraphBuilder()
    return builder.finish({"y": builder.single("add", "y", x=(x := builder.input("x", dtype, (2,))), y=x)})


@pytest.mark.parametrize(("dtype", "inputs", "message"), [
    ("fp16", {}, "'x' is missing"),
    ("fp16", {"x": np.ones(2), "z": np.ones(2)}, "'z' is not one of x"),
    ("fp16", {"x": np.ones(3)}, r"shape \[2\]; found \[3\]"),
    ("int32", {"x": np.ones(2)}, "must hold int32"),
    ("int32", {"x": np.array([1, 2 ** 40])}, "must hold values int32 can"),
    ("fp16", {"x": np.array(["a", "b"])}, "must hold fp16")])
def test_evaluate_checks_its_inputs(dtype: str, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        evaluate(doubled(dtype), inputs)


def test_evaluate_returns_inputs_and_constants_that_are_outputs() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2,))
    builder.add("relu", x=x)
    outputs = evaluate(builder.finish([x, builder.constant(np.float16([3, 4]), "c")]), {"x": np.ones(2)})
    np.testing.assert_array_equal(outputs["x"], [1, 1])
    np.testing.assert_array_equal(outputs["c"], [3, 4])


def test_evaluate_resolves_defaults_a_node_leaves_out() -> None:
    x, y = Value("x", TensorType("fp16", (2, 2))), Value("y", TensorType("fp16", (2, 2)))
    node = Node("softmax", {"x": x}, (y,))
    graph = Graph((x,), (node,), (y,))
    np.testing.assert_array_equal(evaluate(graph, {"x": np.zeros((2, 2))})["y"], np.full((2, 2), 0.5))
    assert arguments(node).axis("axis", 2) == 1


def test_a_variadic_operand_may_be_one_bare_value() -> None:
    x, y = Value("x", TensorType("fp16", (1, 2))), Value("y", TensorType("fp16", (1, 2)))
    axis = GraphBuilder().constant(0)
    graph = Graph((x,), (Node("concat", {"values": x, "axis": axis}, (y,)),), (y,))
    np.testing.assert_array_equal(evaluate(graph, {"x": np.ones((1, 2))})["y"], np.ones((1, 2)))


def node_of(name: str, **operands: Any) -> Node:
    builder = GraphBuilder()
    stated = {key: builder.input(key, *value) if isinstance(value, tuple) else value
              for key, value in operands.items()}
    builder.add(name, "node7", **stated)
    return builder.finish([]).nodes[0]


WEIGHT = np.zeros((4, 4, 3, 3), np.float16)
IMAGE = ("fp16", (1, 4, 8, 8))


@pytest.mark.parametrize(("node", "said"), [
    (node_of("conv", x=IMAGE, weight=WEIGHT), None),
    (node_of("conv", x=IMAGE, weight=WEIGHT, strides=[9, 1], dilations=[1, 3], pad_type="custom", pad=[9, 0, 0, 0]),
     None),
    (node_of("conv", x=IMAGE, weight=("fp16", (4, 4, 1, 1))), None),
    (node_of("conv", x=IMAGE, weight=("fp16", (4, 4, 3, 1))), None),
    (node_of("max_pool", x=IMAGE, kernel_sizes=[8, 5], strides=[4, 4], pad_type="valid"), None),
    (node_of("constexpr_cast", source_val=("fp16", (2,)), output_dtype="fp32"), "operands must be constants"),
    (node_of("conv_transpose", x=("fp16", (1, 1, 1, 1)), weight=np.zeros((1, 1, 1, 1)), strides=[20000, 20000]),
     "must number at most 268435456"),
    (node_of("relu", x=("fp16", (1,) * 6)), "at most 5 dimensions"),
    (node_of("add", x=("int32", (2,)), y=1), "fp16 or fp32"),
    (node_of("pad", x=IMAGE, pad=[1, 1]), None),
    (node_of("pad", x=IMAGE, pad=[1, 1], constant_val=1), None),
    (node_of("pad", x=IMAGE, pad=[1, 1], mode="reflect"), None),
    (node_of("concat", values=[np.zeros((2, 2))], axis=0, interleave=True), None),
    (node_of("gather", x=IMAGE, indices=("int32", (3,))), "Indices must be constants")])
def test_rules_of_the_engine(node: Node, said: str | None) -> None:
    op = get_op(node.op)
    if said is None:
        assert not broken_rules(op, node, LIMITS)
    else:
        assert said in broken_rules(op, node, LIMITS)[0]
    assert f"{next(iter(node.operands))}=" in operands_text(node)


def test_every_rule_reads_as_a_sentence() -> None:
    rules = {rule for op in all_ops().values() for rule in op.rules}
    for rule in rules:
        text = sentence(rule, LIMITS)
        assert text.endswith(".")
        assert "{" not in text


def test_an_index_outside_of_its_tensor_is_named() -> None:
    build = GraphBuilder()
    x, at = build.input("x", "fp16", (3,)), build.input("at", "int32", (2,))
    graph = build.finish([build.single("gather", x=x, indices=at)])
    with pytest.raises(GraphError, match=r"gather .* an index lies outside of what it counts"):
        evaluate(graph, {"x": np.zeros(3, np.float16), "at": np.array([0, 7], np.int32)})
