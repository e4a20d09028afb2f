"""ONNX models: folding, ports, names, weights, files; broken ones raise typed errors that teach."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers import load_graph
from openane.importers.onnx import RunTimeOperandError, load_onnx
from openane.ops.accuracy import CLOSE_IF_SAFE, FUNCTIONS

helper = onnx.helper


def test_flatten_as_exporters_write_it(ints, model, compare):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["zero"], value=onnx.numpy_helper.from_array(np.array(0, np.int64))),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "first"], ["batch1"]),
        helper.make_node("Concat", ["batch1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Slice", ["shape", "first", "two"], ["front"]),
        helper.make_node("ReduceProd", ["front"], ["count"], keepdims=1),
        helper.make_node("Cast", ["count"], ["real"], to=1),
        helper.make_node("Sqrt", ["real"], ["root"]),
        helper.make_node("Mul", ["flat", "root"], ["y"]),
    ]
    proto = model(nodes, {"x": ("batch", 3, 4)}, {"first": ints(0), "two": ints(2), "rest": ints(-1)})
    graph = compare(proto, shapes={"x": (2, 3, 4)})
    assert [node.op for node in graph.nodes] == ["reshape", "mul"]
    with pytest.raises(UnsupportedError, match=r'--shape x=1x3x4.* shapes=\{"x": \[1, 3, 4\]\}'):
        load_onnx(proto)
    with pytest.raises(GraphError, match=r"\[2, 3, 5\] does not fit"):
        load_onnx(proto, {"x": (2, 3, 5)})
    with pytest.raises(GraphError, match="'z', which is no input"):
        load_onnx(proto, {"z": (2, 3, 5)})


@pytest.mark.parametrize("extent", [-1, "", "N"])
def test_open_dimensions_however_they_are_written(model, extent) -> None:
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": ("batch", 3, 4)}, {})
    dimension = proto.graph.input[0].type.tensor_type.shape.dim[0]
    if isinstance(extent, int):
        dimension.dim_value = extent
    else:
        dimension.dim_param = extent
    assert load_onnx(proto, {"x": (2, 3, 4)}).outputs[0].shape == (2, 3, 4)
    with pytest.raises(UnsupportedError, match="--shape x=1x3x4"):
        load_onnx(proto)


def test_other_folding(ints, model, compare):
    nodes = [
        helper.make_node("Range", ["start", "limit", "step"], ["range"]),
        helper.make_node("ConstantOfShape", ["one"], ["ones"],
                         value=helper.make_tensor("v", 7, [1], [3])),
        helper.make_node("Expand", ["ones", "three"], ["threes"]),
        helper.make_node("Equal", ["range", "threes"], ["same"]),
        helper.make_node("Where", ["same", "threes", "range"], ["chosen"]),
        helper.make_node("Div", ["chosen", "threes"], ["divided"]),
        helper.make_node("Transpose", ["divided"], ["turned"]),
        helper.make_node("Slice", ["turned", "minus", "far", "first", "minus"], ["back"]),
        helper.make_node("Cast", ["back"], ["real"], to=1),
        helper.make_node("Add", ["x", "real"], ["y"]),
    ]
    constants = {"start": np.int64(-4), "limit": np.int64(5), "step": np.int64(3), "one": ints(1), "three": ints(3),
                 "minus": ints(-1), "far": ints(-2**63), "first": ints(0)}
    assert len(compare(model(nodes, {"x": (3,)}, constants)).nodes) == 1


def test_several_outputs_shared_weights_and_awkward_names(weights, model, compare):
    nodes = [helper.make_node("Conv", ["in.1", "w"], ["y"]), helper.make_node("Relu", ["y"], ["y_pad"]),
             helper.make_node("Conv", ["in.1", "w"], ["/a/b"], pads=[0, 0, 0, 0]),
             helper.make_node("Add", ["/a/b", "y_pad"], ["y_weight"]), helper.make_node("Identity", ["w"], ["w2"])]
    proto = model(nodes, {"in.1": (1, 2, 4, 4)}, {"w": weights(2, 2, 1, 1)}, outputs=("y", "y_pad", "y_weight", "w2"))
    graph = compare(proto)
    first, second = (node for node in graph.nodes if node.op == "conv")
    assert first["weight"] is second["weight"]


def test_small_network_with_chains(weights, model, compare):
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["c", "d"], ["e"], axis=1), helper.make_node("GlobalAveragePool", ["e"], ["f"]),
        helper.make_node("Flatten", ["f"], ["g"]), helper.make_node("Gemm", ["g", "w3", "b3"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["y"], axis=1)]
    constants = {"w1": weights(8, 1, 3, 3), "b1": weights(8), "w2": weights(8, 1, 3, 3), "w3": weights(10, 16),
                 "b3": weights(10)}
    compare(model(nodes, {"x": (1, 1, 8, 8)}, constants))


def test_port_types_are_recorded(model):
    proto = model([helper.make_node("Cast", ["i"], ["f"], to=1), helper.make_node("Add", ["x", "f"], ["s"]),
                   helper.make_node("Cast", ["s"], ["y"], to=7)], {"x": (2, 2)})
    proto.graph.input.append(helper.make_tensor_value_info("i", onnx.TensorProto.INT64, (2, 2)))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    graph = load_onnx(proto.SerializeToString())
    assert graph.metadata == {"dtype:x": "fp32", "dtype:i": "int64", "dtype:y": "int64", FUNCTIONS: CLOSE_IF_SAFE}
    assert [value.dtype for value in (*graph.inputs, *graph.outputs)] == ["fp16", "int32", "int32"]


def test_weights_beyond_fp16_are_named(model):
    kernel = np.array([[[[70000.0]]], [[[-1e6]]], [[[np.inf]]]], np.float32)
    proto = model([helper.make_node("Conv", ["x", "big"], ["y"])], {"x": (1, 1, 2, 2)}, {"big": kernel})
    with pytest.raises(GraphError, match=r"'big' does not fit fp16.*1e\+06.*65504 \(2 of 3"):
        load_onnx(proto)
    with pytest.warns(RuntimeWarning, match="clamped"):
        graph = load_onnx(proto, saturate=True)
    assert graph.nodes[0]["weight"].array().reshape(-1).tolist() == [65504, -65504, np.inf]


@pytest.mark.parametrize(("node", "error", "message"), [
    (("MaxUnpool", ["x", "x"], {}), UnsupportedError, "ONNX MaxUnpool 'n'.*not supported"),
    (("Einsum", ["x", "x"], {"equation": "ij,jk,k"}), GraphError, "3 terms for 2 inputs"),
    (("Einsum", ["x", "x"], {"equation": "ij,jk"}), GraphError, "letter 'j' stands for 3 and 2"),
    (("Sigmoidd", ["x"], {}), UnsupportedError, "nearest supported: Sigmoid"),
    (("Shrink", ["x"], {"domain": "com.x"}), UnsupportedError, "other domains"),
    (("SVMClassifier", ["x"], {"domain": "ai.onnx.ml"}), UnsupportedError, "a processor takes microseconds for them"),
    (("NonZero", ["x"], {}), UnsupportedError, "number of rows that a mask chooses"),
    (("Slice", ["x", "z", "z"], {}), UnsupportedError, "starts must be a constant(.|\\n)*values="),
    (("Reshape", ["x", "z"], {}), UnsupportedError, "shape must be a constant"),
    (("Reshape", ["x", "c"], {}), GraphError, "does not hold the 6 elements"),
    (("Pad", ["x", "p"], {"mode": "mirror"}), UnsupportedError, "'mode'.*mirror(.|\n)*one of constant, reflect"),
    (("Resize", ["v", "", "s"], {"mode": "area"}), UnsupportedError, "'mode'.*area(.|\n)*one of nearest"),
    (("LSTM", ["t", "w", "r"], {"activations": ["Sin"] * 3}), UnsupportedError, "'activations'.*Sin(.|\n)*Sigmoid"),
    (("Loop", ["", "", "x"], {}), GraphError, "attribute 'body' must be a graph"),
    (("MaxPool", ["v"], {}), GraphError, "'kernel_shape' is missing"),
    (("MaxPool", ["v"], {"kernel_shape": [2]}), GraphError, "must hold 2 integers"),
    (("Conv", ["v", "v"], {"auto_pad": "HALF"}), UnsupportedError, "'auto_pad'.*HALF"),
    (("Gelu", ["x"], {"approximate": "fast"}), UnsupportedError, "one of none, tanh"),
    (("Transpose", ["x"], {"perm": [0, 0]}), GraphError, "ONNX Transpose 'n'.*perm"),
    (("Softmax", ["x"], {"axis": 5}), GraphError, "axis must be in -2..1"),
    (("Relu", ["nobody"], {}), GraphError, "'nobody'"),
    (("Relu", [], {}), GraphError, "input 0 is missing"),
    (("Relu", [""], {}), GraphError, "input 0 is missing"),
    (("LeakyRelu", ["x"], {"alpha": "much"}), GraphError, "must be a number"),
    (("ConstantOfShape", ["h"], {}), GraphError, "elements"),
])
def test_errors_teach(node, error, message, ints, model):
    op, inputs, attributes = node
    proto = model([helper.make_node(op, inputs, ["y"], name="n", **attributes)],
                  {"x": (2, 3), "z": (2,), "v": (1, 1, 4, 4), "t": (2, 1, 3), "w": (1, 8, 3), "r": (1, 8, 2)},
                  {"c": ints(7), "p": ints(0, 0, 1, 1), "h": ints(2**40, 2**20), "s": np.ones(4, np.float32)}, 20)
    with pytest.raises(error, match=message):
        load_onnx(proto)


def test_the_branch_taken_is_imported(model):
    result = helper.make_empty_tensor_value_info("r")
    inner = [helper.make_graph([helper.make_node(op, ["x"], ["r"])], "b", [], [result]) for op in ("Relu", "Sigmoid")]
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner[0], else_branch=inner[1])
    for condition, op in ((True, "relu"), (False, "sigmoid")):
        assert load_onnx(model([node], {"x": (2,)}, {"c": np.array(condition)})).nodes[0].op == op


@pytest.mark.parametrize("x", [2, -3])
def test_of_two_branches_a_computed_condition_chooses(x, model, compare):
    results = [helper.make_empty_tensor_value_info(name) for name in "rk"]
    constant = onnx.numpy_helper.from_array(np.array([4, 5, 6], np.float32), "k")
    inner = [helper.make_graph([helper.make_node(op, ["x"], ["r"])], "b", [], results, [constant])
             for op in ("Relu", "Sigmoid")]
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "z"], ["c"]),
             helper.make_node("If", ["c"], ["p", "q"], then_branch=inner[0], else_branch=inner[1]),
             helper.make_node("Add", ["p", "q"], ["y"])]
    compare(model(nodes, {"x": (1, 3)}, {"z": np.float32(0)}, 13), {"x": np.array([[x, 0.5, -0.25]], np.float32)},
            tolerance=0.01)


def _relu_or(operator):
    """Nodes that choose, by what x is, between a Relu and another operator."""
    result = helper.make_empty_tensor_value_info("r")
    inner = [helper.make_graph([helper.make_node(op, ["x"], ["r"])], "b", [], [result]) for op in ("Relu", operator)]
    return [helper.make_node("Greater", ["x", "k"], ["c"]),
            helper.make_node("If", ["c"], ["y"], then_branch=inner[0], else_branch=inner[1])]


def test_branches_of_two_shapes_need_a_known_condition(model):
    nodes = _relu_or("Flatten")
    with pytest.raises(UnsupportedError, match=r"\[\[1, 1, 1\]\] and the other \[\[1, 1\]\], must"):
        load_onnx(model(nodes, {"x": (1, 1, 1)}, {"k": np.float32(1)}, 13))
    with pytest.raises(UnsupportedError, match="the condition must be a constant"):
        load_onnx(model(nodes, {"x": (1, 1, 2)}, {"k": np.float32(1)}, 13))


def test_a_branch_that_cannot_be_computed_is_named(model):
    nodes = _relu_or("Unknown")
    with pytest.raises(UnsupportedError, match=r"one of its branches cannot be computed .*Unknown"):
        load_onnx(model(nodes, {"x": (1,)}, {"k": np.float32(1)}, 13))


@pytest.mark.parametrize("turns", [600, 5000])
def test_a_loop_of_many_turns_is_unrolled_as_far_as_its_nodes_allow(turns, model, ints):
    """A number for each turn is bounded by how many nodes all turns come to, and turns that compute nothing by their
    own number."""
    ports = [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("c", 9, []),
             helper.make_tensor_value_info("s", 1, [1])]
    body = helper.make_graph([helper.make_node("Add", ["s", "half"], ["t"])], "body", ports,
                             [ports[1], helper.make_tensor_value_info("t", 1, [1])])
    proto = model([helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], {"x": (1,)},
                  {"n": np.array(turns), "half": np.array([0.5], np.float32)})
    if turns > 4096:
        with pytest.raises(UnsupportedError, match=r"limit 4096(.|\n)*states in and out"):
            load_onnx(proto)
    else:
        assert len(load_onnx(proto).nodes) == turns


@pytest.mark.parametrize(("kind", "value"), [(onnx.TensorProto.INT64, 16000), (onnx.TensorProto.BOOL, True)])
def test_a_branch_that_a_setting_takes_asks_for_its_value(kind, value):
    result = helper.make_empty_tensor_value_info("r")
    inner = [helper.make_graph([helper.make_node(op, ["x"], ["r"])], "b", [], [result]) for op in ("Relu", "Sigmoid")]
    rate = onnx.numpy_helper.from_array(np.array(value), "k")
    graph = helper.make_graph(
        [helper.make_node("Equal", ["sr", "k"], ["c"]),
         helper.make_node("If", ["c"], ["y"], then_branch=inner[0], else_branch=inner[1])], "g",
        [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("sr", kind, [])],
        [helper.make_tensor_value_info("y", 1, None)], [rate])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    with pytest.raises(RunTimeOperandError, match=r"the condition must be a constant(.|\n)*--value sr=NUMBER"):
        load_onnx(proto)
    assert load_onnx(proto, values={"sr": np.array(value)}).nodes[0].op == "relu"


@pytest.mark.parametrize(("shape", "hint"), [((4,), "--value x=NUMBER"), ((1, 8), "mask what does not count")])
def test_data_is_not_asked_for_as_a_value(shape, hint, model):
    nodes = [helper.make_node("Greater", ["x", "k"], ["c"]), helper.make_node("NonZero", ["c"], ["y"])]
    with pytest.raises(RunTimeOperandError, match=hint):
        load_onnx(model(nodes, {"x": shape}, {"k": np.float32(0)}))


def test_files_are_told_apart_by_content(tmp_path, model):
    proto = model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)})
    for name in ("m.onnx", "m.bin"):
        (tmp_path / name).write_bytes(proto.SerializeToString())
        assert load_graph(tmp_path / name).nodes[0].op == "relu"
    with pytest.raises(FormatError, match="cannot be read"):
        load_graph(tmp_path / "absent.onnx")
    with pytest.raises(FormatError, match="not an ONNX model"):
        load_onnx(b"")
    (tmp_path / "m.xyz").write_bytes(b"something")
    for path in (tmp_path / "m.xyz", tmp_path):
        with pytest.raises(UnsupportedError, match=r"\.onnx"):
            load_graph(path)


def test_weights_beside_the_model(tmp_path, weights, model):
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (2, 40)}, {"w": weights(40, 40)})
    onnx.save_model(proto, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=16)
    whole = onnx.load(str(tmp_path / "m.onnx"))
    graph = load_graph(tmp_path / "m.onnx")
    array = onnx.numpy_helper.to_array(whole.graph.initializer[0])
    assert np.array_equal(graph.nodes[0]["weight"].array(), array.T)
    with pytest.raises(FormatError, match="another file"):
        load_onnx((tmp_path / "m.onnx").read_bytes())
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FormatError):
        load_graph(tmp_path / "m.onnx")


def test_what_decides_shapes_is_named(ints):
    node = helper.make_node("Reshape", ["x", "s2"], ["y"])
    double = helper.make_node("Mul", ["s", "s"], ["s2"])
    ports = [helper.make_tensor_value_info("x", 1, [4, 4]), helper.make_tensor_value_info("s", 7, [2])]
    graph = helper.make_graph([double, node], "g", ports, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    with pytest.raises(RunTimeOperandError, match="shape must be a constant") as caught:
        load_onnx(model)
    assert caught.value.inputs == {"s"}
    assert isinstance(caught.value, UnsupportedError)
    assert load_onnx(model, values={"s": ints(1, 4)}).outputs[0].shape == (1, 16)
