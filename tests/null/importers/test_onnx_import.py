"""ONNX models imported and evaluated give what onnxruntime computes, and broken models raise typed errors."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from openane.errors import AneError, FormatError, GraphError, UnsupportedError
from openane.importers import load_graph
from openane.importers.onnx import OPERATORS, load_onnx
from openane.ops.evaluate import evaluate

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper

RANDOM = np.random.default_rng(7)


def weights(*shape: int, scale: float = 1.0) -> np.ndarray:
    """fp32 weights that fp16 holds exactly, so that only the import is compared."""
    return np.asarray(RANDOM.standard_normal(shape) * scale, np.float16).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return np.asarray(np.abs(weights(*shape)) + np.float32(0.5))


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def model(nodes, inputs, constants=None, opset=17, outputs=("y",)):
    """A model of fp32 inputs {name: shape}."""
    constants = constants or {}
    graph = helper.make_graph(
        nodes, "test", [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def compare(proto, data: dict[str, np.ndarray] | None = None, tolerance: float = 2e-3, shapes=None):
    """Imports `proto`, evaluates it and onnxruntime on the same data; returns the graph."""
    graph = load_onnx(proto, shapes)
    data = data or {value.name: weights(*value.shape) for value in graph.inputs}
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    expected = session.run(None, data)
    results = evaluate(graph, data)
    for port, array in zip(session.get_outputs(), expected, strict=True):
        assert results[port.name].shape == array.shape
        np.testing.assert_allclose(results[port.name], array, rtol=tolerance, atol=tolerance)
    for value in graph.inputs:
        assert graph.metadata[f"dtype:{value.name}"] == "fp32"
    return graph


def one(op: str, x=(2, 3, 4, 5), constants=(), opset=17, data=None, **attributes):
    """A model of one node: x and constants in order."""
    table = {f"c{index}": array for index, array in enumerate(constants) if array is not None}
    names = ["x", *(f"c{index}" if array is not None else "" for index, array in enumerate(constants))]
    node = helper.make_node(op, names, ["y"], name="the node", **attributes)
    return compare(model([node], {"x": x}, table, opset), None if data is None else {"x": data})


@pytest.mark.parametrize("op", ["Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Neg", "Erf", "Softplus", "Softsign", "Floor",
                                "Ceil", "Sign", "HardSwish", "Identity", "Elu", "HardSigmoid", "LeakyRelu",
                                "GlobalAveragePool", "GlobalMaxPool", "Flatten", "Transpose", "Dropout"])
def test_functions(op):
    graph = one(op)
    assert graph.outputs[0].name == "y"
    if graph.nodes[-1].op != "identity":
        assert graph.nodes[-1].source == f"ONNX {op} 'the node'"


@pytest.mark.parametrize("op", ["Log", "Sqrt", "Reciprocal"])
def test_functions_of_positive_numbers(op):
    one(op, data=positive(2, 3, 4, 5))


def test_round_goes_to_even():
    one("Round", (8,), data=np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, 3.51], np.float32))


@pytest.mark.parametrize(("op", "attributes"), [
    ("LeakyRelu", {"alpha": 0.25}), ("Elu", {"alpha": 0.5}), ("HardSigmoid", {"alpha": 0.5, "beta": 0.25}),
    ("Flatten", {"axis": 0}), ("Flatten", {"axis": -1}), ("Flatten", {"axis": 4}),
    ("Transpose", {"perm": [0, 2, 3, 1]}), ("Softmax", {}), ("Softmax", {"axis": 1}), ("Softmax", {"axis": -2}),
    ("ReduceMean", {"axes": [2, 3]}), ("ReduceMean", {}), ("ReduceMax", {"axes": [-1], "keepdims": 0}),
    ("ReduceMin", {"axes": [1]}),
])
def test_attributes(op, attributes):
    one(op, **attributes)


def test_gelu():
    for approximate in ("none", "tanh"):
        one("Gelu", opset=20, approximate=approximate)


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 1, 4, 3), (3, 5), (2, 7, 1, 1), (2, 1, 5, 1)])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_before_opset_13_runs_over_all_later_dimensions(shape, axis):
    one("Softmax", shape, opset=11, axis=axis)
    one("Softmax", shape, opset=13, axis=axis)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min"])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (3, 1, 1), (), (1, 1, 4, 1)])
def test_two_operands(op, shape):
    nodes = [helper.make_node(op, ["x", "c"], ["h"]), helper.make_node(op, ["h", "z"], ["y"])]
    data = {"x": weights(2, 3, 4, 5), "z": positive(*shape)}
    compare(model(nodes, {"x": (2, 3, 4, 5), "z": shape}, {"c": positive(*shape)}), data)


def test_many_operands():
    for op in ("Max", "Min", "Sum"):
        node = helper.make_node(op, ["x", "c", "z"], ["y"])
        compare(model([node], {"x": (2, 3), "z": (2, 1)}, {"c": weights(3)}))
        compare(model([helper.make_node(op, ["x"], ["y"])], {"x": (2, 3)}))


@pytest.mark.parametrize(("exponent", "op"), [(2.0, "square"), (0.5, "sqrt"), (1.0, "identity"), (3.0, "pow")])
def test_powers(exponent, op):
    graph = one("Pow", (2, 3), [np.float32(exponent)], data=positive(2, 3))
    assert graph.nodes[-1].op == op
    one("Pow", (2, 3), [ints(2)], data=positive(2, 3))
    one("Pow", (2, 3), [np.array([1, 2, 3], np.float32)], data=positive(2, 3))


def test_parametric_relu():
    assert one("PRelu", constants=[np.full((1,), 0.25, np.float32)]).nodes[-1].op == "leaky_relu"
    one("PRelu", constants=[weights(3, 1, 1)])


@pytest.mark.parametrize(("low", "high", "op"), [
    (0, 6, "relu6"), (0, None, "relu"), (None, 1, "minimum"), (-1, None, "maximum"), (-0.5, 0.5, "clip"),
    (None, None, "identity"), (0, np.finfo(np.float32).max, "relu"), (1, -1, "minimum"),
])
def test_clip(low, high, op):
    bounds = [None if bound is None else np.float32(bound) for bound in (low, high)]
    assert one("Clip", constants=bounds).nodes[-1].op == op
    named = {name: float(bound) for name, bound in zip(("min", "max"), bounds, strict=True) if bound is not None}
    if low is None or high is None or low <= high:
        assert one("Clip", opset=6, **named).nodes[-1].op == op


@pytest.mark.parametrize("attributes", [
    {}, {"pads": [1, 2, 0, 1]}, {"strides": [2, 1], "auto_pad": "SAME_UPPER"}, {"auto_pad": "VALID"},
    {"strides": [2, 3], "auto_pad": "SAME_LOWER"}, {"dilations": [2, 1], "pads": [1, 1, 1, 1]},
    {"group": 2}, {"group": 2, "kernel_shape": [3, 3]},
])
def test_convolution(attributes):
    group = attributes.get("group", 1)
    kernel = weights(6, 4 // group, 3, 3, scale=0.2)
    one("Conv", (2, 4, 9, 8), [kernel], **attributes)
    one("Conv", (2, 4, 9, 8), [kernel, weights(6)], **attributes)


def test_convolution_of_one_and_three_axes():
    one("Conv", (2, 4, 9), [weights(5, 4, 3)], pads=[1, 0])
    one("Conv", (1, 2, 5, 6, 4), [weights(3, 2, 3, 3, 2)], pads=[1, 0, 1, 0, 1, 0])


@pytest.mark.parametrize("attributes", [
    {}, {"strides": [2, 2]}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    {"ceil_mode": 1, "strides": [2, 2]}, {"pads": [1, 1, 1, 1]},
])
def test_pooling(attributes):
    one("MaxPool", (2, 3, 9, 8), kernel_shape=[3, 3], **attributes)
    one("AveragePool", (2, 3, 9, 8), kernel_shape=[3, 3], **attributes)
    one("AveragePool", (2, 3, 9, 8), kernel_shape=[3, 3], count_include_pad=1, **attributes)


@pytest.mark.parametrize("bias", [None, (5,), (1, 5), (1,), (2, 1), (2, 5), ()])
@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.5, "beta": 2.0}, {"transB": 1}, {"transA": 1, "alpha": 0.5}])
def test_gemm(bias, attributes):
    shape = (4, 2) if attributes.get("transA") else (2, 4)
    matrix = weights(5, 4) if attributes.get("transB") else weights(4, 5)
    one("Gemm", shape, [matrix, *([] if bias is None else [weights(*bias)])], **attributes)
    node = helper.make_node("Gemm", ["x", "b", "c"], ["y"], **attributes)
    compare(model([node], {"x": shape, "b": matrix.shape, "c": (5,)}))


@pytest.mark.parametrize(("x", "y"), [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 5, 2, 3), (5, 3, 4)), ((3,), (3, 4)),
                                      ((2, 3), (3,))])
def test_matmul(x, y):
    one("MatMul", x, [weights(*y)])
    compare(model([helper.make_node("MatMul", ["x", "z"], ["y"])], {"x": x, "z": y}))


def test_normalisations():
    scale, offset, mean, variance = weights(3), weights(3), weights(3), positive(3) * np.float32(1e-7)
    for shape in ((2, 3, 4, 5), (2, 3), (2, 3, 4)):
        data = weights(*shape) * np.float32(1e-2)
        one("BatchNormalization", shape, [scale, offset, mean * np.float32(1e-2), positive(3)], data=data)
    one("BatchNormalization", (2, 3, 4), [scale, offset, np.zeros(3, np.float32), variance],
        data=np.float32(1e-3) * weights(2, 3, 4), epsilon=1e-9)
    one("LayerNormalization", (2, 3, 8), [weights(8), weights(8)])
    one("LayerNormalization", (2, 3, 8), [weights(3, 8)], axis=1)
    one("LayerNormalization", (2, 3, 8), [weights(8)], epsilon=1e-12)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_axes_as_attribute_and_input(opset):
    nodes, constants = [], {}
    x = "x"
    for op, since, axes in (("Unsqueeze", 13, [1, -1]), ("ReduceSum", 13, [2]), ("ReduceMean", 18, [3]),
                            ("ReduceMax", 18, [0]), ("ReduceMin", 18, [1]), ("Squeeze", 13, [0])):
        out = f"t{len(nodes)}"
        if opset >= since:
            constants[f"axes_{out}"] = ints(*axes)
            nodes.append(helper.make_node(op, [x, f"axes_{out}"], [out]))
        else:
            nodes.append(helper.make_node(op, [x], [out], axes=axes))
        x = out
    compare(model(nodes, {"x": (3, 4, 5)}, constants, opset, (x,)))


def test_padding():
    one("Pad", (2, 3), [ints(1, 0, 2, 3)])
    one("Pad", (2, 3), [ints(1, 0, 2, 3), np.float32(0)])
    one("Pad", (2, 3, 4), [ints(1, 2), None, ints(-2)], opset=18)
    one("Pad", (2, 3), opset=2, pads=[0, 1, 2, 0])
    assert one("Pad", (2, 3), [ints(0, 0, 0, 0)]).nodes[0].op == "identity"


def test_flatten_as_exporters_write_it():
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
    with pytest.raises(UnsupportedError, match=r'shapes=\{"x": \(1, 3, 4\)\}'):
        load_onnx(proto)
    with pytest.raises(GraphError, match=r"\[2, 3, 5\] does not fit"):
        load_onnx(proto, {"x": (2, 3, 5)})
    with pytest.raises(GraphError, match="'z', which is no input"):
        load_onnx(proto, {"z": (2, 3, 5)})


def test_other_folding():
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


def test_several_outputs_shared_weights_and_awkward_names():
    nodes = [helper.make_node("Conv", ["in.1", "w"], ["y"]), helper.make_node("Relu", ["y"], ["y_pad"]),
             helper.make_node("Conv", ["in.1", "w"], ["/a/b"], pads=[0, 0, 0, 0]),
             helper.make_node("Add", ["/a/b", "y_pad"], ["y_weight"]), helper.make_node("Identity", ["w"], ["w2"])]
    proto = model(nodes, {"in.1": (1, 2, 4, 4)}, {"w": weights(2, 2, 1, 1)}, outputs=("y", "y_pad", "y_weight", "w2"))
    graph = compare(proto)
    first, second = (node for node in graph.nodes if node.op == "conv")
    assert first["weight"] is second["weight"]


def test_small_network_with_chains():
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


def test_port_types_are_recorded():
    proto = model([helper.make_node("Cast", ["i"], ["f"], to=1), helper.make_node("Add", ["x", "f"], ["s"]),
                   helper.make_node("Cast", ["s"], ["y"], to=7)], {"x": (2, 2)})
    proto.graph.input.append(helper.make_tensor_value_info("i", onnx.TensorProto.INT64, (2, 2)))
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    graph = load_onnx(proto.SerializeToString())
    assert graph.metadata == {"dtype:x": "fp32", "dtype:i": "int64", "dtype:y": "int64"}
    assert [value.dtype for value in (*graph.inputs, *graph.outputs)] == ["fp16", "int32", "int32"]


def test_weights_beyond_fp16_are_named():
    kernel = np.array([[[[70000.0]]], [[[-1e6]]], [[[np.inf]]]], np.float32)
    proto = model([helper.make_node("Conv", ["x", "big"], ["y"])], {"x": (1, 1, 2, 2)}, {"big": kernel})
    with pytest.raises(GraphError, match=r"'big' does not fit fp16.*1e\+06.*65504 \(2 of 3"):
        load_onnx(proto)
    with pytest.warns(RuntimeWarning, match="clamped"):
        graph = load_onnx(proto, saturate=True)
    assert graph.nodes[0]["weight"].array().reshape(-1).tolist() == [65504, -65504, np.inf]


@pytest.mark.parametrize(("node", "error", "message"), [
    (("Einsum", ["x", "x"], {"equation": "ij,ij"}), UnsupportedError, "ONNX Einsum 'n'.*not supported"),
    (("Sigmoidd", ["x"], {}), UnsupportedError, "nearest supported: Sigmoid"),
    (("Shrink", ["x"], {"domain": "com.x"}), UnsupportedError, "other domains"),
    (("Slice", ["x", "c", "c"], {}), UnsupportedError, "constants only"),
    (("Reshape", ["x", "z"], {}), UnsupportedError, "shape must be a constant"),
    (("Reshape", ["x", "c"], {}), GraphError, "does not hold the 6 elements"),
    (("Pad", ["x", "p"], {"mode": "reflect"}), UnsupportedError, "'mode'.*reflect(.|\n)*zeros"),
    (("Pad", ["x", "p", "f"], {}), UnsupportedError, "'constant_value'"),
    (("MaxPool", ["v"], {"kernel_shape": [2, 2], "dilations": [2, 2]}), UnsupportedError, "'dilations'"),
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
def test_errors_teach(node, error, message):
    op, inputs, attributes = node
    proto = model([helper.make_node(op, inputs, ["y"], name="n", **attributes)],
                  {"x": (2, 3), "z": (2,), "v": (1, 1, 4, 4)},
                  {"c": ints(7), "p": ints(0, 0, 1, 1), "f": np.float32(1), "h": ints(2**40, 2**20)}, 20)
    with pytest.raises(error, match=message):
        load_onnx(proto)


def test_control_flow_is_refused():
    result = helper.make_empty_tensor_value_info("r")
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], [result])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    with pytest.raises(UnsupportedError, match="nested graphs"):
        load_onnx(model([node], {"x": (2,)}, {"c": np.array(True)}))


def test_files_are_told_apart_by_content(tmp_path):
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


def test_weights_beside_the_model(tmp_path):
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


def test_mutated_models_raise_typed_errors():
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["n"]),
             helper.make_node("Concat", ["n", "m"], ["t"], axis=0),
             helper.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
             helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2]),
             helper.make_node("Clip", ["a", "", "lim"], ["c"]), helper.make_node("Reshape", ["c", "t"], ["r"]),
             helper.make_node("Softmax", ["r"], ["y"])]
    constants = {"i": ints(0), "m": ints(-1), "w": weights(2, 1, 3, 3), "b": weights(2), "lim": np.float32(1)}
    data = model(nodes, {"x": (1, 1, 4, 4)}, constants, outputs=("y", "p")).SerializeToString()
    chance = random.Random(11)
    for _ in range(1500):
        mutated = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(mutated))
            kind = chance.randrange(4)
            if kind == 0:
                mutated[place] = chance.randrange(256)
            elif kind == 1:
                mutated[place] ^= 1 << chance.randrange(8)
            elif kind == 2:
                del mutated[place:place + chance.randint(1, 8)]
            else:
                mutated[place:place] = chance.randbytes(chance.randint(1, 4))
        try:
            load_onnx(bytes(mutated), saturate=True)
        except AneError:
            continue
        except RuntimeWarning:
            continue


def test_every_operator_is_tested():
    text = Path(__file__).read_text(encoding="utf-8")
    missing = [op for op in OPERATORS if f'"{op}"' not in text]
    assert not missing
