"""Models as MIL text for the system's compiler: what is written, and that it means what the graph means."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from support.mil_graphs import graphs

from openane.devices.macos.graph_program import GraphProgram, graph_program
from openane.errors import AneError, UnsupportedError
from openane.formats.blob import read_blob
from openane.graph import Graph, Node, TensorType, Value
from openane.graph.mil import parse_mil
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate


def written(graph: Graph, **declared: str) -> GraphProgram:
    """The program of a graph; `declared` are types of ports that differ from the graph's."""
    ports = [[SimpleNamespace(name=value.name, shape=value.shape, dtype=declared.get(value.name, value.dtype))
              for value in values] for values in (graph.inputs, graph.outputs)]
    model: Any = SimpleNamespace(name="m", programs=(), steps=(), states=(), functions={}, graph=graph,
                                 inputs=ports[0], outputs=ports[1])
    return graph_program(model)


def read(program: GraphProgram) -> Graph:
    return parse_mil(program.text, lambda path, offset: read_blob(program.weights[path], offset))


def meaning(program: GraphProgram, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The program's outputs by the model's names."""
    given = {port.mil: inputs[port.name].astype(np.float16 if port.element == "fp16" else port.element)
             .reshape(port.shape) for port in program.inputs}
    found = evaluate(read(program), given)
    return {port.name: found[port.mil] for port in program.outputs}


def test_what_is_written() -> None:
    builder = GraphBuilder()
    x, rows = builder.input("the input/0", "fp32", (2, 3)), builder.input("rows", "int32", (2,))
    chosen = builder.single("gather", "pick", x=x, indices=rows, axis=1)
    program = written(builder.finish({"y": builder.single("cast", x=chosen, dtype="fp32"), "again": x}))
    assert program.text == """program(1.3)
[buildInfo = dict<string, string>({{"coremlc-component-MIL", "3520.4.1"}, {"coremlc-version", "3520.5.1"}})]
{
  func main<ios18>(tensor<fp16, [2, 3]> in000_the_input_0, tensor<int16, [2]> in001_rows) {
    string in001_rows_as_int32_dtype = const()[name = string("in001_rows_as_int32_dtype"), val = string("int32")];
    tensor<int32, [2]> in001_rows_as_int32 = cast(dtype = in001_rows_as_int32_dtype, x = in001_rows)[name = string("in001_rows_as_int32")];
    int32 pick_axis = const()[name = string("pick_axis"), val = int32(1)];
    int32 pick_batch_dims = const()[name = string("pick_batch_dims"), val = int32(0)];
    bool pick_validate_indices = const()[name = string("pick_validate_indices"), val = bool(false)];
    tensor<fp16, [2, 2]> out000_y = gather(axis = pick_axis, batch_dims = pick_batch_dims, indices = in001_rows_as_int32, validate_indices = pick_validate_indices, x = in000_the_input_0)[name = string("pick")];
    tensor<fp16, [2, 3]> out001_again = identity(x = in000_the_input_0)[name = string("out001_again")];
  } -> (out000_y, out001_again);
}
"""  # noqa: E501 - a golden text
    assert program.weights == {}
    assert [(port.name, port.mil, port.dtype, port.element) for port in (*program.inputs, *program.outputs)] == [
        ("the input/0", "in000_the_input_0", "fp32", "fp16"), ("rows", "in001_rows", "int32", "int16"),
        ("y", "out000_y", "fp32", "fp16"), ("again", "out001_again", "fp32", "fp16")]


def test_ports_are_in_the_models_order_in_every_order_of_names() -> None:
    builder = GraphBuilder()
    names = ["b", "B", "a", "_", "Ä", "10", "9"]
    total = builder.input(names[0], "fp16", (4,))
    for name in names[1:]:
        total = builder.single("add", x=total, y=builder.input(name, "fp16", (4,)))
    ports = [port.mil for port in written(builder.finish({"y": total})).inputs]
    assert sorted(ports) == sorted(ports, key=str.lower) == ports
    assert len(set(ports)) == len(names)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_any_graph_is_written_or_refused(graph: Graph) -> None:
    try:
        program = written(graph)
    except AneError:
        return
    assert len(program.inputs) == len(graph.inputs)
    assert set(program.weights) <= {"@model_path/weights/weight.bin"}


@pytest.mark.parametrize("mask", ["none", "numbers", "truth"])
def test_attention_is_spelled_out_where_it_has_a_mask(mask: str) -> None:
    rng = np.random.default_rng(1)
    builder, shapes = GraphBuilder(), {"q": (2, 3, 5, 8), "k": (2, 3, 7, 8), "v": (2, 3, 7, 4)}
    query, key, value = (builder.input(name, "fp16", shape) for name, shape in shapes.items())
    masks = {"none": None, "numbers": np.where(np.tri(5, 7), 0.25, -1e9),
             "truth": builder.constant(np.tri(5, 7, dtype=bool))}
    graph = builder.finish({"y": builder.single("scaled_dot_product_attention", query=query, key=key, value=value,
                                                attn_mask=masks[mask])})
    program = written(graph)
    assert (" scaled_dot_product_attention(" in program.text) == (mask == "none")
    inputs = {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}
    np.testing.assert_allclose(meaning(program, inputs)["y"], evaluate(graph, inputs)["y"], atol=2e-3)


def test_convolutions_say_everything_and_add_their_bias() -> None:
    rng = np.random.default_rng(2)
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 6))
    y = builder.single("conv", x=x, weight=rng.standard_normal((8, 4, 3, 3)), bias=rng.standard_normal(8))
    graph = builder.finish({"y": builder.single("max_pool", x=y, kernel_sizes=[2, 2], pad_type="valid")})
    program = written(graph)
    conv = next(node for node in read(program).nodes if node.op == "conv")
    assert set(conv.operands) == {"x", "weight", "strides", "pad_type", "pad", "dilations", "groups"}
    inputs = {"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float16)}
    np.testing.assert_allclose(meaning(program, inputs)["y"], evaluate(graph, inputs)["y"], rtol=1e-2, atol=1e-2)


def test_weights_of_a_convolution_must_be_known() -> None:
    builder = GraphBuilder()
    x, weight = builder.input("x", "fp16", (1, 4, 6, 6)), builder.input("weight", "fp16", (8, 4, 1, 1))
    graph = builder.finish({"y": builder.single("conv", "mix", x=x, weight=weight)})
    with pytest.raises(UnsupportedError, match=r"conv 'mix': its weights are computed at run time(.|\n)*matmul"):
        written(graph)
    builder = GraphBuilder()
    x, kernel = builder.input("x", "fp16", (1, 4, 6, 6)), builder.constant(np.ones((1, 1, 4, 8), np.float16))
    turned = builder.single("transpose", x=kernel, perm=[3, 2, 0, 1])
    assert " conv(" in written(builder.finish({"y": builder.single("conv", x=x, weight=turned)})).text


def test_numbers_that_fp16_does_not_hold() -> None:
    x = Value("x", TensorType("fp32", (3,)))
    epsilon = Value("e", TensorType("fp32", ()), np.array(1e-12, np.float32))
    mask = Value("m", TensorType("fp32", (3,)), np.array([1e9, -1e9, -np.inf], np.float32))
    first, second = Value("r", x.type), Value("y", x.type)
    graph = Graph((x,), (Node("rsqrt", {"x": x, "epsilon": epsilon}, (first,), "r"),
                         Node("add", {"x": first, "y": mask}, (second,), "y")), (second,), "main")
    constants = {value.name: value.data for node in read(written(graph)).nodes for value in node.values()
                 if value.constant}
    assert constants["e"] == 2.0 ** -24
    assert constants["m"].tolist() == [65504, -65504, -np.inf]


def test_an_epsilon_beyond_fp16_stays_finite() -> None:
    build = GraphBuilder()
    x = build.input("x", "fp32", (1, 4, 2, 2))
    y = build.single("layer_norm", x=x, axes=[1], epsilon=np.float32(1e6))
    program = written(build.finish({"y": y}))
    held = [value.array() for node in read(program).nodes if (value := node.get("epsilon")) is not None]
    assert [float(array) for array in held] == [65504.0]
