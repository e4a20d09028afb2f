"""Arrays that people have: without a name, of another byte order, with numbers that are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.examples import EXAMPLES

import openane as ane
from openane.cli import main
from openane.errors import GraphError

DIGITS = EXAMPLES / "digits" / "digits.onnx"


def test_one_array_needs_no_name_where_there_is_one_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((1, 1, 8, 8), np.float32))
    assert main(["check", str(DIGITS), "--sample", str(tmp_path / "x.npy")]) == 0
    assert "the sample given" in capsys.readouterr().out
    (tmp_path / "two.mil").write_text("""program(1.0)
{
    func main<ios16>(tensor<fp16, [1, 4, 2, 8]> a, tensor<fp16, [1, 4, 2, 8]> b) {
        tensor<fp16, [1, 4, 2, 8]> y = add(x = a, y = b)[name = string("y")];
    } -> (y);
}
""")
    assert main(["check", str(tmp_path / "two.mil"), "--sample", str(tmp_path / "x.npy")]) == 1
    assert "expected NAME=x.npy" in capsys.readouterr().err


def test_the_order_of_bytes_does_not_matter() -> None:
    model = ane.compile(ane.load_graph(DIGITS))
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    found = [ane.run(model, {"image": image.astype(dtype)})["probabilities"] for dtype in ("<f4", ">f4", "<f2", ">f2")]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[2], found[3])


def test_nothing_is_called_right_on_numbers_that_are_none() -> None:
    graph = ane.load_graph(DIGITS)
    with pytest.raises(GraphError, match="nothing can be compared on it"):
        ane.check(graph, {"image": np.full((1, 1, 8, 8), np.nan, np.float32)})
    with pytest.raises(GraphError, match="must hold numbers"):
        ane.check(graph, {"image": np.zeros((1, 1, 8, 8), np.complex64)})


def test_a_file_that_is_no_evidence_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.txt").write_text("{}\nnothing\n")
    assert main(["evidence", str(tmp_path / "x.txt")]) == 1
    assert f"{tmp_path / 'x.txt'}: " in capsys.readouterr().err
