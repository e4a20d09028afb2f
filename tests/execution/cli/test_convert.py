"""`ane convert`: what is written in another format computes what the model does."""

from __future__ import annotations

import numpy as np
import pytest
from support.examples import EXAMPLES

import openane as ane
from openane.cli import main
from openane.ops.evaluate import evaluate

DIGITS = EXAMPLES / "digits" / "digits.onnx"


@pytest.mark.parametrize("name", ["d.mlpackage", "d.mil", "d.onnx"])
def test_a_model_computes_the_same_in_another_format(name, tmp_path):
    assert main(["convert", str(DIGITS), "-o", str(tmp_path / name)]) == 0
    first, second = ane.load_graph(DIGITS), ane.load_graph(tmp_path / name)
    given = {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}
    np.testing.assert_allclose(*(evaluate(graph, given)["probabilities"] for graph in (first, second)), atol=1e-3)


def test_there_and_back(tmp_path):
    source = tmp_path / "x.mil"
    source.write_text("""program(1.0)
{
    func main<ios16>(tensor<fp16, [1, 4, 2, 8]> x) {
        tensor<fp16, [1, 4, 2, 8]> y = relu(x = x)[name = string("y")];
    } -> (y);
}
""")
    assert main(["convert", str(source), "-o", str(tmp_path / "x.plist")]) == 0
    assert [node.op for node in ane.load_graph(tmp_path / "x.plist").nodes] == ["relu"]


def test_other_formats_are_refused_with_those_there_are(tmp_path, capsys):
    assert main(["convert", str(DIGITS), "-o", str(tmp_path / "d.tflite")]) == 1
    assert ".mlpackage, .mil, .onnx, .plist" in capsys.readouterr().err


def test_fp32_is_for_onnx_alone(tmp_path, capsys):
    assert main(["convert", str(DIGITS), "-o", str(tmp_path / "d.onnx"), "--fp32"]) == 0
    assert main(["convert", str(DIGITS), "-o", str(tmp_path / "d.mil"), "--fp32"]) == 1
    assert "it says in which type an ONNX model computes" in capsys.readouterr().err
