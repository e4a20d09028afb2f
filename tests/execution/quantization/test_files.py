"""Compressed models in files: every kind is read, compiled and run, and computes what the graph does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

import openane as ane
from openane.chips.weight_forms import WeightForm
from openane.cli import FAILED, main
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.compressed import shifted
from openane.ops.drawn_inputs import drawn
from openane.ops.evaluate import evaluate
from openane.quantization.files import save_quantized
from openane.quantization.measuring import relative
from openane.quantization.modelled import modelled

RANDOM = np.random.default_rng(2)
Capture = pytest.CaptureFixture[str]


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * 0.08).astype(np.float32)


def network(opset: str | None = None) -> Graph:
    b = GraphBuilder("network", {} if opset is None else {"opset": opset})
    x = b.single("conv", "stem", x=b.input("x", "fp16", (1, 8, 8, 8)), weight=weight(32, 8, 3, 3).astype(np.float16),
                 pad_type="same", strides=(2, 2))
    x = b.single("linear", "head", x=b.single("reshape", x=b.single("relu", x=x), shape=(1, 512)),
                 weight=weight(24, 512).astype(np.float16))
    return b.finish({"y": x})


def onnx_model(opset: int = 17, dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    """A convolution, a MatMul, a Gemm and one whose weight a Transpose computes."""
    arrays = {"w1": weight(16, 8, 3, 3), "w2": weight(256, 48), "w3": weight(40, 48), "b3": weight(40),
              "w4": weight(64, 40)}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["c"], "conv", pads=[1, 1, 1, 1], strides=[2, 2]),
             helper.make_node("Flatten", ["c"], ["f"]), helper.make_node("MatMul", ["f", "w2"], ["m"], "product"),
             helper.make_node("Gemm", ["m", "w3", "b3"], ["g"], "gemm", transB=1),
             helper.make_node("Transpose", ["w4"], ["t"], perm=[1, 0]), helper.make_node("MatMul", ["g", "t"], ["y"])]
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", dtype, [1, 8, 8, 8])],
                              [helper.make_tensor_value_info("y", dtype, [1, 64])],
                              [numpy_helper.from_array(array.astype(kind), name) for name, array in arrays.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [None, "ios15", "ios16", "ios18"])
@pytest.mark.parametrize("suffix", [".mlpackage", ".mil"])
@pytest.mark.parametrize("form", WeightForm)
def test_files_are_read_back_as_they_were(form: WeightForm, suffix: str, opset: str | None, tmp_path: Path) -> None:
    if form.startswith("int8-") and opset in ("ios15", "ios16"):
        with pytest.raises(UnsupportedError, match="came with iOS 18"):
            ane.quantize(network(opset), form, least=1)
        return
    found = ane.quantize(network(opset), form, least=1)
    assert save_quantized(found, tmp_path / f"small{suffix}") == ()
    again = ane.load_graph(tmp_path / f"small{suffix}")
    assert [node.op for node in again.nodes] == [node.op for node in found.graph.nodes]
    sample = drawn(again)
    assert np.array_equal(evaluate(again, sample)["y"], evaluate(found.graph, sample)["y"])


@pytest.mark.parametrize("form", WeightForm)
def test_the_engine_computes_what_the_graph_does(form: WeightForm, tmp_path: Path) -> None:
    found = ane.quantize(network(), form, least=1)
    save_quantized(found, tmp_path / "small.mlpackage")
    sample = drawn(found.graph)
    result = ane.run(ane.compile(ane.load_graph(tmp_path / "small.mlpackage")), sample)["y"]
    assert relative(result, evaluate(found.graph, sample)["y"]) < 2e-3


def test_two_mil_files_in_one_folder_keep_their_weights_apart(tmp_path: Path) -> None:
    for form in ("int8", "palette4"):
        save_quantized(ane.quantize(network(), form), tmp_path / f"{form}.mil")
    ops = {form: {node.op for node in ane.load_graph(tmp_path / f"{form}.mil").nodes} for form in ("int8", "palette4")}
    assert "constexpr_affine_dequantize" in ops["int8"]
    assert "constexpr_lut_to_dense" in ops["palette4"]


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_onnx_comes_out_as_initialisers_of_int8(dtype: int, tmp_path: Path) -> None:
    source, small = tmp_path / "m.onnx", tmp_path / "small.onnx"
    onnx.save(onnx_model(dtype=dtype), source)
    found = ane.quantize(ane.load_graph(source), least=512)
    left = save_quantized(found, small, source)
    assert left == ("y",), "the weight that a Transpose computes"
    onnx.checker.check_model(str(small), full_check=True)
    proto = onnx.load(small)
    dequantised = {node.input[0]: node for node in proto.graph.node if node.op_type == "DequantizeLinear"}
    axes = {name: node.attribute[0].i for name, node in dequantised.items()}
    assert axes == {"w1_quantized": 0, "w2_quantized": 1, "w3_quantized": 0}
    assert {tensor.data_type for tensor in proto.graph.initializer if tensor.name in axes} == {TensorProto.INT8}
    x = RANDOM.standard_normal((1, 8, 8, 8)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    before, after = (onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0] for path in (source, small))
    assert relative(after, before) < 0.02
    ours = ane.run(ane.compile(ane.load_graph(small)), {"x": x})["y"]
    assert relative(ours, after) < 0.01


def test_onnx_weights_of_every_operator_lose_as_little(tmp_path: Path) -> None:
    """Scales lie along the outputs of each: onnxruntime computes both models."""
    cases = {
        "ConvTranspose": ((8, 6, 3, 3), (1, 8, 5, 5), {"group": 2}), "Gemm": ((32, 24), (4, 32), {}),
        "MatMul": ((3, 32, 24), (3, 4, 32), {}), "Conv": ((16, 8, 3), (1, 8, 15), {})}
    for op, (shape, port, attributes) in cases.items():
        spread = np.logspace(-2, 1, shape[-1 if op in ("Gemm", "MatMul") else 1 if op == "ConvTranspose" else 0])
        turned = {"ConvTranspose": (1, -1, 1, 1), "Conv": (-1, 1, 1)}.get(op, (-1,))
        array = (weight(*shape) * spread.reshape(turned)).astype(np.float32)
        held = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(array))
        graph = helper.make_graph([held, helper.make_node(op, ["x", "w"], ["y"], **attributes)], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, port)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
        source, small = tmp_path / f"{op}.onnx", tmp_path / f"{op}_small.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
        assert save_quantized(ane.quantize(ane.load_graph(source), least=64), small, source) == ()
        x = RANDOM.standard_normal(port).astype(np.float32)
        before, after = (onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0] for path in (source, small))
        channels = -1 if op in ("Gemm", "MatMul") else 1
        for number in range(before.shape[channels]):  # the smallest, too
            assert relative(after.take(number, channels), before.take(number, channels)) < 0.1, op


@pytest.mark.parametrize("directions", [1, 2])
def test_onnx_recurrent_weights_are_those_of_both_directions(directions: int, tmp_path: Path) -> None:
    arrays = {"w": weight(directions, 64, 16), "r": weight(directions, 64, 16)}
    kind = {1: "forward", 2: "bidirectional"}[directions]
    graph = helper.make_graph([helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=16, direction=kind)], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 1, 16])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(array, name) for name, array in arrays.items()])
    source, small = tmp_path / "m.onnx", tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), source)
    assert save_quantized(ane.quantize(ane.load_graph(source), least=64), small, source) == ()
    assert {tensor.name for tensor in onnx.load(small).graph.initializer} >= {"w_quantized", "r_quantized"}
    x = RANDOM.standard_normal((5, 1, 16)).astype(np.float32)
    before, after = (onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0] for path in (source, small))
    assert relative(after, before) < 0.02


def test_safetensors_hold_integers_and_their_scales(tmp_path: Path) -> None:
    graph = network()
    for form in ("int8", "int8-blocks", "int8-offsets"):
        found = ane.quantize(graph, form, least=1)
        assert save_quantized(found, tmp_path / "small.safetensors") == ()
        tensors = load_file(tmp_path / "small.safetensors")
        assert len([name for name, array in tensors.items() if array.dtype == np.int8 and
                    not name.endswith("_zero_point")]) == 2
        for layer in found.layers:
            data, scale = tensors[layer.weight.name], tensors[f"{layer.weight.name}_scale"]
            offset = tensors.get(f"{layer.weight.name}_zero_point")
            assert (offset is not None) == (form == "int8-offsets")
            assert np.array_equal(shifted(data, scale, offset).astype(np.float16), layer.stored.array)
    with pytest.raises(UnsupportedError, match="no convention says how weights of the form palette4"):
        save_quantized(ane.quantize(graph, "palette4"), tmp_path / "small.safetensors")


def test_onnx_integers_are_those_that_were_chosen(tmp_path: Path) -> None:
    """In whatever order the tensor's dimensions lie."""
    source, small = tmp_path / "m.onnx", tmp_path / "small.onnx"
    onnx.save(onnx_model(), source)
    found = ane.quantize(ane.load_graph(source), least=512, biases=False)
    save_quantized(found, small, source)
    written = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(small).graph.initializer}
    chosen = [layer.stored.operation.operands["quantized_data"][1] for layer in found.layers]
    for name in ("w1", "w2", "w3"):
        array = written[f"{name}_quantized"]
        assert any(np.array_equal(array.ravel(), each.ravel()) or np.array_equal(array.T.ravel(), each.ravel())
                   for each in chosen if each.size == array.size)


def test_onnx_has_no_palettes_and_needs_opset_13(tmp_path: Path) -> None:
    source = tmp_path / "m.onnx"
    onnx.save(onnx_model(11), source)
    graph = ane.load_graph(source)
    with pytest.raises(UnsupportedError, match="no operator that gives back weights of the form palette4"):
        save_quantized(ane.quantize(graph, "palette4"), tmp_path / "small.onnx", source)
    with pytest.raises(UnsupportedError, match="operator set 13"):
        save_quantized(ane.quantize(graph), tmp_path / "small.onnx", source)
    with pytest.raises(UnsupportedError, match="from an ONNX model"):
        save_quantized(ane.quantize(graph), tmp_path / "small.onnx")


def test_zeros_left_out_are_fewer_bytes_for_the_engine() -> None:
    """Of a convolution of stride 2 alone; other forms are fp16 in the program, and so counted."""
    graph = network()
    before = modelled(ane.compile(graph))
    sparse, palette = (modelled(ane.compile(ane.quantize(graph, form, zeros=0.9).graph)) for form in
                       ("sparse", "palette4"))
    assert palette.fetched == before.fetched
    assert palette.constants == before.constants
    assert before.fetched - sparse.fetched > 0.3 * graph.nodes[0]["weight"].array().nbytes
    assert 0 < sparse.without_zeros < sparse.tasks


@pytest.fixture
def package(tmp_path: Path) -> Callable[[], Path]:
    def made() -> Path:
        ane.importers.write_mlpackage(network(), tmp_path / "m.mlpackage")
        return tmp_path / "m.mlpackage"
    return made


def test_the_command_writes_and_reports(package: Callable[[], Path], tmp_path: Path, capsys: Capture) -> None:
    x = drawn(network())["x"]
    np.savez(tmp_path / "sample.npz", x=x)
    output = tmp_path / "small.mlpackage"
    assert main(["quantize", str(package()), "-o", str(output), "--form", "auto", "--max-error", "0.15", "--sample",
                 str(tmp_path / "sample.npz"), "--no-cache", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["samples"] == "given"
    assert 0 < document["errors"]["y"] <= 0.15
    assert document["bytes_after"] < document["bytes_before"] / 2
    assert document["engine"]["before"]["seconds"] == pytest.approx(document["engine"]["after"]["seconds"], rel=0.05)
    assert {layer["name"] for layer in document["layers"]} == {"stem", "head"}
    assert main(["run", str(output), "--check", "--no-cache"]) == 0
    capsys.readouterr()
    assert main(["quantize", str(package()), "--form", "palette4", "--no-time"]) == 0
    text = capsys.readouterr().out
    assert "2 of 2 weights" in text
    assert "programs hold fp16: how palettes lie in the engine's streams is not known" in text


def test_the_command_compiles_bundles(package: Callable[[], Path], tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "small.ane"
    assert main(["quantize", str(package()), "-o", str(output), "--no-cache"]) == 0
    assert main(["run", str(output), "--check"]) == 0
    assert main(["quantize", str(output)]) == FAILED
    assert "is compiled already" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "says"), [
    (["-o", "x.onnx", "--form", "palette6"], "no operator that gives back weights of the form palette6"),
    (["-o", "x.onnx"], "ONNX QDQ is written from an ONNX model"), (["-o", "x.bin"], "not written in this form"),
    (["-o", "nowhere/x.mil"], "there is no such folder")])
def test_the_command_refuses_by_name(arguments: list[str], says: str, package: Callable[[], Path],
                                     capsys: Capture) -> None:
    assert main(["quantize", str(package()), *arguments]) == FAILED
    assert says in capsys.readouterr().err
