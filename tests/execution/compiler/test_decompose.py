"""Operations that run as others: names, sources and reports speak of the user's node; passes that go with it."""

import numpy as np
import pytest

from openane.compiler import Where, compile
from openane.errors import GraphError, UnsupportedError
from openane.graph import Node
from openane.ops import all_ops, get_op
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.rewriter import Rewriter
from openane.passes.decompose import decompose
from openane.passes.hoist_scales import hoist_scales
from openane.passes.merge_affine import merge_affine
from openane.passes.order import simplify


def small():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 4, 8))
    y = builder.single("instance_norm", "scaled", "line 7", x=x, gamma=np.arange(4), beta=np.ones(4))
    return builder.finish([builder.single("relu", "result", x=y), y])


def test_results_keep_their_names_and_parts_name_the_node():
    graph = decompose(small())
    graph.verify()
    assert [node.op for node in graph.nodes] == ["layer_norm", "batch_norm", "relu"]
    assert [value.name for value in graph.outputs] == ["result", "scaled"]
    assert graph.nodes[1].output.name == "scaled"
    assert {node.source for node in graph.nodes[:2]} == {"instance_norm 'scaled' (from line 7)"}
    data = np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float16)
    before, after = (evaluate(g, {"x": data}) for g in (small(), graph))
    for name, expected in before.items():
        np.testing.assert_allclose(after[name], expected, atol=1e-5)


def test_the_report_has_one_entry_for_the_node():
    model = compile(small())
    (entry,) = [entry for entry in model.report if "instance_norm" in entry.operation]
    assert entry.where is Where.ENGINE
    assert entry.reason == "as batch_norm, layer_norm"
    assert len(entry.tasks) >= 2
    tasks = [task for entry in model.report for task in entry.tasks]
    assert sorted(set(tasks)) == list(range(len(model.program.tasks)))


def test_a_constant_result_is_folded():
    builder = GraphBuilder()
    constant = builder.constant(np.ones((2, 3, 4), np.float16))
    y = builder.single("instance_norm", x=constant)
    graph = builder.finish({"y": builder.single("add", x=builder.input("x", "fp16", (4,)), y=y)})
    assert [node.op for node in simplify(graph).nodes] == ["add"]


def test_rules_are_checked_before_the_node_is_replaced():
    builder = GraphBuilder()
    order = builder.single("argsort", "order", x=builder.input("x", "fp16", (2, 50)))
    with pytest.raises(UnsupportedError, match=r"argsort 'order'.*at most 32 positions"):
        compile(builder.finish([order]))


def test_results_must_have_the_types_of_the_node():
    graph = small()
    node = graph.nodes[0]
    rewriter = Rewriter(node, {"x"})
    with pytest.raises(GraphError, match="its decomposition makes"):
        rewriter.instead([rewriter.single("reshape", x=node["x"], shape=[64])])


def test_a_result_that_is_an_operand_or_given_twice_goes_through_identities():
    x = GraphBuilder().input("x", "fp16", (3,))
    outputs = tuple(GraphBuilder().input(name, "fp16", (3,)) for name in ("a", "b", "c"))
    rewriter = Rewriter(Node("three", {"x": x}, outputs, "three"), {"x", "a", "b", "c"})
    made = rewriter.single("relu", x=x)
    nodes = rewriter.instead([made, made, x])
    assert [node.op for node in nodes] == ["relu", "identity", "identity"]
    assert [node.output for node in nodes] == list(outputs)
    assert nodes[1]["x"] is outputs[0]


def test_every_operation_is_lowered_or_decomposed_but_for_those_refused():
    neither = {name for name, op in all_ops().items() if op.lower is None and op.decompose is None}
    assert neither <= {name for name in neither if get_op(name).rules}
    assert not {name for name, op in all_ops().items() if op.lower is not None and op.decompose is not None}


def attention_like(change):
    """A projection, heads set apart, and a scale; `change` says what else reads the projection."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 6, 16))
    y = builder.single("linear", x=x, weight=np.random.default_rng(0).standard_normal((16, 16)))
    heads = builder.single("transpose", x=builder.single("reshape", x=y, shape=[2, 6, 4, 4]), perm=[0, 2, 1, 3])
    result = builder.single("mul", x=heads, y=0.5)
    outputs = {"y": builder.single("transpose", x=result, perm=[0, 1, 3, 2])}
    if change == "read twice":
        outputs["z"] = builder.single("relu", x=y)
    return builder.finish(outputs)


@pytest.mark.parametrize(("change", "left"), [("", []), ("read twice", ["mul"])])
def test_scales_go_through_transposes_into_weights(change, left):
    graph = attention_like(change)
    data = {"x": np.random.default_rng(1).standard_normal((2, 6, 16)).astype(np.float16)}
    hoisted = hoist_scales(graph)
    hoisted.verify()
    for name, expected in evaluate(graph, data).items():
        np.testing.assert_allclose(evaluate(hoisted, data)[name], expected, rtol=1e-3, atol=1e-5)
    assert [node.op for node in simplify(graph).nodes if node.op == "mul"] == left


def test_gain_and_offset_become_one_node():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (2, 3, 5, 5))
    y = builder.single("add", x=builder.single("mul", x=x, y=np.arange(3.0).reshape(3, 1, 1)), y=np.ones((1, 3, 1, 1)))
    other = builder.single("add", x=builder.single("mul", x=x, y=np.ones(5) * 2), y=np.ones((3, 1, 1)))
    graph = builder.finish({"y": y, "z": other})
    merged = merge_affine(graph)
    merged.verify()
    assert [node.op for node in merged.nodes if node.op != "identity"] == ["batch_norm", "mul", "add"]
    data = {"x": np.random.default_rng(1).standard_normal((2, 3, 5, 5)).astype(np.float16)}
    for name, expected in evaluate(graph, data).items():
        np.testing.assert_allclose(evaluate(merged, data)[name], expected, rtol=1e-3, atol=1e-5)
