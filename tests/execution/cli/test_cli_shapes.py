"""`--shape` with alternatives: one bundle, a line of costs for each, the right function for the files given."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from openane.cli import main

FAILED = 1
Capture = pytest.CaptureFixture[str]
SHAPES = "x=1x{16,32}x8"


@pytest.fixture
def open_model(tmp_path: Path) -> Path:
    """y = softmax(x w) with an open dimension."""
    weight = np.random.default_rng(0).uniform(-1, 1, (8, 40)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softmax", ["z"], ["y"])], "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n", 40])], [numpy_helper.from_array(weight, "w")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_model_in_several_shapes(open_model: Path, tmp_path: Path, capsys: Capture) -> None:
    bundle, file = tmp_path / "model.ane", tmp_path / "x.npy"
    arguments = [str(open_model), "--shape", SHAPES, "--pad", "x=0"]
    assert main(["compile", *arguments, "-o", str(bundle)]) == 0
    text = capsys.readouterr().err
    for said in ("main_16", "main_32", "x 1x16x8", "padded: x with 0"):
        assert said in text
    assert main(["compile", *arguments, "-o", str(bundle), "--json"]) == 0
    costs = json.loads(capsys.readouterr().out)["shapes"]
    assert [cost["function"] for cost in costs] == ["main_16", "main_32"]
    assert costs[0]["own"] == costs[0]["constants"]
    assert costs[1]["own"] < costs[1]["constants"]
    x = np.random.default_rng(1).standard_normal((1, 20, 8)).astype(np.float32)
    np.save(file, x)
    for subject in ([str(bundle)], arguments):
        words = ["run", *subject, "--input", f"x={file}", "--output-dir", str(tmp_path), "--check", "--json"]
        assert main(words) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["tasks"] == costs[1]["tasks"]
        assert document["outputs"]["y"]["shape"] == [1, 20, 40]
        assert document["outputs"]["y"]["error"]["max_abs"] < 1e-2
        assert np.load(tmp_path / "y.npy").shape == (1, 20, 40)


def test_what_does_not_go_with_several_shapes(open_model: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 33, 8), np.float32))
    run = ["run", str(open_model), "--shape", SHAPES, "--input", f"x={tmp_path / 'x.npy'}"]
    assert main(run) == FAILED
    assert "no function takes x 1x33x8; there are x 1x16x8; x 1x32x8" in capsys.readouterr().err
    assert main(["info", str(open_model), "--shape", SHAPES]) == FAILED
    assert "one shape" in capsys.readouterr().err
    for shape, said in (("x=1x{16,16}x8", "is there twice"), ("x={1,2}x{1,2,3}x8", "equally")):
        assert main(["compile", str(open_model), "--shape", shape, "-o", str(tmp_path / "m.ane")]) == FAILED
        assert said in capsys.readouterr().err


@pytest.fixture
def two_inputs(tmp_path: Path) -> Path:
    """The first `count` rows of x, whose shape and count are open."""
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "zero", "count", "zero"], ["part"]),
         helper.make_node("Relu", ["part"], ["y"])],
        "model", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8]),
                  helper.make_tensor_value_info("count", TensorProto.INT64, ["one"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], [numpy_helper.from_array(np.array([0]), "zero")])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_every_open_input_is_named_at_once(two_inputs: Path, capsys: Capture) -> None:
    assert main(["info", str(two_inputs)]) == FAILED
    said = capsys.readouterr().err
    assert "these inputs have symbolic dimensions" in said
    assert "--shape x=1x8 --shape count=1" in said
    assert main(["info", str(two_inputs), "--value", "count=2"]) == FAILED
    assert "give its shape, for example --shape x=1x8, in" in capsys.readouterr().err
    assert main(["info", str(two_inputs), "--shape", "x=3x8", "--value", "count=2"]) == 0
    assert "2x8" in capsys.readouterr().out


def test_padding_is_of_models_in_several_shapes(open_model: Path, tmp_path: Path, capsys: Capture) -> None:
    for command in (["compile", "-o", str(tmp_path / "m.hwx")], ["run"]):
        assert main([command[0], str(open_model), "--shape", "x=1x16x8", "--pad", "x=0", *command[1:]]) == 1
        assert "--pad: arrays are filled up for a model in several shapes (found one shape)" in capsys.readouterr().err
