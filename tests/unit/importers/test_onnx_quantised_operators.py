"""onnxruntime's operators on quantised tensors, one at a time between a quantisation and a dequantisation: the imported
graph gives what onnxruntime gives, but for a step of the result's quantisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from openane.importers.onnx import load_onnx
from openane.ops.evaluate import evaluate
from openane.ops.weights import numbers

STEP = 0.05
"""One step of every result."""
X, Y = ["qx", "sx", "zx"], ["qy", "sy", "zy"]
RESULT = ["sr", "zr"]
SCALES = {"sx": np.float32(0.03), "zx": np.uint8(120), "sy": np.float32(0.02), "zy": np.uint8(131),
          "sr": np.float32(STEP), "zr": np.uint8(128)}
UNIT = {"sr": np.float32(1 / 256), "zr": np.uint8(0)}
"""What onnxruntime wants of results from 0 to 1."""


@pytest.mark.parametrize(("op", "inputs", "shape", "attributes", "constants"), [
    ("QLinearAdd", X + Y + RESULT, (1, 4, 6, 6), {}, {}),
    ("QLinearMul", X + Y + RESULT, (1, 4, 6, 6), {}, {}),
    ("QLinearConcat", RESULT + X + Y, (1, 4, 6, 6), {"axis": 1}, {}),
    ("QLinearWhere", ["cond", *X, *Y, *RESULT], (4, 6), {}, {"cond": np.arange(24).reshape(4, 6) % 3 == 0}),
    ("QLinearLeakyRelu", X + RESULT, (1, 4, 6, 6), {"alpha": 0.25}, {}),
    ("QLinearSigmoid", X + RESULT, (1, 4, 6, 6), {}, UNIT),
    ("QLinearSoftmax", X + RESULT, (3, 10), {"axis": -1, "opset": 17}, UNIT),
    ("QLinearAveragePool", X + RESULT, (1, 4, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]}, {}),
    ("QLinearGlobalAveragePool", X + RESULT, (1, 4, 6, 6), {"channels_last": 0}, {}),
    ("QGemm", [*X, "w", "sw", "zw", "b", *RESULT], (3, 8), {"transB": 1},
     {"w": np.arange(40, dtype=np.uint8).reshape(5, 8), "sw": np.float32(0.01), "zw": np.uint8(20),
      "b": np.arange(5, dtype=np.int32) * 100}),
])
def test_results_are_within_a_step(op: str, inputs: list[str], shape: tuple[int, ...], attributes: dict[str, Any],
                                   constants: dict[str, np.ndarray]) -> None:
    model, used = _model(op, inputs, shape, attributes, SCALES | constants)
    rng = np.random.default_rng(len(op))
    data = {name: rng.standard_normal(shape).astype(np.float16).astype(np.float32) for name in used}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted, = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, data)
    found = evaluate(load_onnx(model), data)["result"]
    assert found.shape == wanted.shape
    step = float((SCALES | constants)["sr"])
    assert np.abs(found - wanted).max() <= 1.01 * step
    assert np.mean(np.abs(found - wanted) < 0.1 * step) > 0.9


def test_means_which_onnxruntime_writes_and_does_not_run() -> None:
    model, _ = _model("QLinearReduceMean", X + RESULT, (1, 4, 6, 6), {"axes": [2, 3], "keepdims": 1}, SCALES)
    x = np.random.default_rng(3).standard_normal((1, 4, 6, 6)).astype(np.float16).astype(np.float32)
    held = (np.clip(np.rint(x / 0.03) + 120, 0, 255) - 120) * 0.03
    found = evaluate(load_onnx(model), {"x": x})["result"]
    assert np.abs(found - held.mean((2, 3), keepdims=True)).max() <= 0.51 * STEP


def _model(op: str, inputs: list[str], shape: tuple[int, ...], attributes: dict[str, Any],
           tables: Mapping[str, np.ndarray | np.generic]) -> tuple[onnx.ModelProto, list[str]]:
    """One operator between quantisations of x and y, as far as it reads them, and a dequantisation; which it reads."""
    used = [name for name in ("x", "y") if f"q{name}" in inputs]
    nodes = [helper.make_node("QuantizeLinear", [name, f"s{name}", f"z{name}"], [f"q{name}"]) for name in used]
    nodes += [helper.make_node(op, inputs, ["q"], domain="com.microsoft", **attributes),
              helper.make_node("DequantizeLinear", ["q", "sr", "zr"], ["result"])]
    graph = helper.make_graph(
        nodes, "quantised", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in used],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tables.items()])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("com.microsoft", 1)])
    return model, used


def test_a_product_of_integers_is_counted_in_all_digits_of_its_scales() -> None:
    """Of which fp16 holds eleven bits: of a hundred steps that is a twentieth of one."""
    scales = {"a": 0.0281, "b": 0.0335, "r": 0.1193}
    zero = np.uint8(0)
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["x", "a", "z", "y", "b", "z", "r", "z"], ["q"])], "g",
        [helper.make_tensor_value_info(name, TensorProto.UINT8, (4, 4)) for name in "xy"],
        [helper.make_tensor_value_info("q", TensorProto.UINT8, (4, 4))],
        [numpy_helper.from_array(np.float32(scale), name) for name, scale in scales.items()] +
        [numpy_helper.from_array(np.asarray(zero), "z")])
    found = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    factors = [numbers(node["y"]).item() for node in found.nodes if node.op == "mul" and node["y"].constant]
    exact = np.prod([np.float64(np.float32(scales[name])) for name in "ab"]) / np.float32(scales["r"])
    assert np.prod(factors) == pytest.approx(exact, rel=2.0 ** -23)


@pytest.mark.parametrize("zero", [(), ("zero",)])
def test_numbers_of_eight_bits_are_dequantised(zero: tuple[str, ...]) -> None:
    """fp16 holds each of them, so that what is given is fp16: it is no number yet."""
    graph = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["x", "scale", *zero], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT8E4M3FN, (3,))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3,))],
        [numpy_helper.from_array(np.float32(2), "scale"),
         helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, (), [0])])
    found = load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]))
    x = np.array([0.5, 1, 240], np.float32)
    np.testing.assert_array_equal(evaluate(found, {"x": x})["y"], 2 * x)


NARROW = {TensorProto.INT4: 21, TensorProto.UINT4: 21, TensorProto.INT8: 17, TensorProto.INT16: 21}
"""Types that numbers are quantised to, and the operator set that has each."""


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("known", [True, False])
def test_numbers_are_quantised_to_all_that_their_type_holds(kind: int, known: bool) -> None:
    """Weights that a model states in fp32 and quantises itself, as onnxruntime's quantiser writes them with
    AddQDQPairToWeight, and numbers of an input; many lie beyond what the type holds."""
    rng = np.random.default_rng(5)
    scale = np.float32(0.1 if kind != TensorProto.INT16 else 1e-4)
    weight = rng.standard_normal((24, 8)).astype(np.float32) * (1 if kind != TensorProto.INT8 else 9)
    tensors = [numpy_helper.from_array(scale, "s"), helper.make_tensor("z", kind, (), [1]),
               *([numpy_helper.from_array(weight, "w")] if known else [])]
    nodes = [helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
             helper.make_node("MatMul", ["x", "d"], ["y"])]
    shapes = {"x": (3, 24)} if known else {"x": (3, 24), "w": (24, 8)}
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
                                           for name, shape in shapes.items()],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, 8))], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", NARROW[kind])], ir_version=10)
    data = {"x": rng.standard_normal((3, 24)).astype(np.float32), **({} if known else {"w": weight})}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted, = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, data)
    imported = load_onnx(model)
    found = evaluate(imported, data)["y"]
    assert np.linalg.norm(found - wanted) < 1e-3 * np.linalg.norm(wanted)
    assert not known or not any(each.op in ("round", "clip") for each in imported.nodes)
