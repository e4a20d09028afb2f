"""`ane run --check --arithmetic exact`: every tensor of a model beside float64, the program as it would be without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.compiler.inspect.intermediates import intermediates
from openane.graph import Graph
from openane.ops.build import GraphBuilder

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def check(capsys: pytest.CaptureFixture[str], path: Path, *options: str, passes: bool = True) -> dict[str, Any]:
    code = main(["run", str(path), "--check", "--arithmetic", "exact", "--json", "--no-cache", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (code, document["check"]["passed"]) == ((0, True) if passes else (1, False))
    return document


def written(graph: Graph, folder: Path) -> Path:
    path = folder / "model.ane"
    ane.compile(graph, allow_host=True, precision="as-is").save(path)
    return path


def layers() -> Graph:
    """Two linear layers with a residual, a ReLU, a reduction and a softmax between."""
    rng = np.random.default_rng(1)
    weights = [(rng.standard_normal((24, 24)) / 5).astype(np.float16) for _ in range(2)]
    b = GraphBuilder()
    x = b.input("x", "fp16", (6, 24))
    hidden = b.single("relu", x=b.single("linear", x=x, weight=weights[0], name="first"), name="clamped")
    added = b.single("add", x=b.single("linear", x=hidden, weight=weights[1], name="second"), y=x, name="added")
    mean = b.single("reduce_mean", x=added, axes=np.int32([-1]), keep_dims=True, name="mean")
    return b.finish({"y": b.single("softmax", x=b.single("sub", x=added, y=mean, name="centred"), axis=-1)})


def test_every_stored_tensor_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = check(capsys, written(layers(), tmp_path))
    rows = document["tensors"]
    stored = [row for row in rows if row["l2_rel"] is not None]
    assert {"relu", "add", "reduce_mean", "sub", "softmax"} <= {row["operation"].split()[0] for row in stored}
    assert all(row["l2_rel"] < 3e-3 and row["own_l2_rel"] < 3e-3 for row in stored)
    assert all(row["overflow"] == 0 and not row["first"] for row in stored)
    tasks = [task for row in rows for place in row["engine"] for task in place["tasks"]]
    assert sorted(tasks) == list(range(document["tasks"]))
    last = next(row for row in rows if row["tensor"] == "y")
    assert last["max_abs"] == pytest.approx(document["outputs"]["y"]["error"]["max_abs"], rel=1e-3)


def test_a_model_file_and_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    document = check(capsys, DIGITS)
    stored = [row for row in document["tensors"] if row["l2_rel"] is not None]
    assert len(stored) >= 5
    assert all(row["l2_rel"] < 5e-3 for row in stored)
    assert main(["run", str(DIGITS), "--check", "--arithmetic", "exact"]) == 0
    text = capsys.readouterr().out
    assert "tensors against float64" in text
    assert "no tensor's relative L2 error exceeds 0.01" in text
    assert main(["run", str(DIGITS), "--check", "--arithmetic", "exact", "--threshold", "1e-6"]) == 1
    text = capsys.readouterr().out
    assert text.count("first over the threshold") == 1
    assert "check failed: probabilities: relative L2" in text


def test_where_a_model_overflows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (4, 64))
    low = b.single("exp", x=x, name="powers")
    high = b.single("linear", x=low, weight=np.full((8, 64), 500, np.float16), name="summed")
    path = written(b.finish({"y": b.single("reduce_max", x=high, axes=np.int32([-1]), keep_dims=True)}), tmp_path)
    values = tmp_path / "x.npy"
    np.save(values, np.ones((4, 64), np.float16))
    document = check(capsys, path, "--input", f"x={values}", passes=False)
    rows = document["tensors"]
    (first,) = [row for row in rows if row["first"]]
    assert first["overflow"] == np.prod(first["shape"])
    assert all(row["overflow"] == 0 for row in rows[:rows.index(first)] if row["stored"])
    assert document["outputs"]["y"]["error"]["not_finite"] == np.prod(document["outputs"]["y"]["shape"])
    assert document["outputs"]["y"]["error"]["max_abs"] is None
    assert main(["run", str(path), "--check", "--input", f"x={values}"]) == 1
    text = capsys.readouterr().out
    assert "check failed: y: 4 of 4 values infinite or NaN where the reference has numbers" in text
    assert "inf%" not in text


def overflowing(weight: np.ndarray, source: str, behind: str = "relu") -> Graph:
    b = GraphBuilder()
    x = b.input("x", "fp16", (4, 64))
    known = b.single(source, x=x, name="before")
    linear = b.single("linear", x=known, weight=weight.astype(np.float16), name="multiplied")
    return b.finish({"y": b.single(behind, x=linear, name="y")})


@pytest.mark.parametrize(("graph", "words"), [
    (overflowing(np.full((4, 64), 700.0), "abs"), ["'multiplied'", "reaches 4.48e+04", "infinite from 32768 on"]),
    (overflowing(np.repeat([[900.0] * 63 + [-56000.0]], 4, 0), "abs"), ["partial sum", "32768"]),
    (overflowing(np.full((4, 64), 2.0 ** -10), "exp"), ["'before'", "65504"]),
    (overflowing(np.array([[700.0] * 64, [900.0] * 40 + [-1500.0] * 24] * 2), "abs", "exp"),  # infinite in float64 too
     ["'multiplied'", "reaches 4.48e+04", "infinite from 32768 on"]),
])
def test_the_limit_that_was_passed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: Graph,
                                            words: list[str]) -> None:
    path, values = written(graph, tmp_path), tmp_path / "x.npy"
    np.save(values, np.full((4, 64), 12.0 if "'before'" in words else 1.0, np.float16))
    rows = check(capsys, path, "--input", f"x={values}", passes=False)["tensors"]
    first = next(row for row in rows if row["overflow"])
    assert all(word in first["reason"] for word in words), first["reason"]
    if first["tensor"] == "y":
        assert any("'multiplied'" in label for label in first["with"])
    assert main(["run", str(path), "--check", "--arithmetic", "exact", "--input", f"x={values}"]) == 1
    assert first["reason"] in capsys.readouterr().out


def test_equal_programs_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder()
    value = b.input("x", "fp16", (2, 40))
    for number in range(2):
        doubled = b.single("mul", x=value, y=np.float16(2), name=f"doubled{number}")
        order = b.single("argsort", x=doubled, axis=-1, name=f"order{number}")
        value = b.single("cast", x=order, dtype="fp16", name=f"cast{number}")
    document = check(capsys, written(b.finish({"y": value}), tmp_path))
    assert document["programs"] >= 2
    doubled = [row for row in document["tensors"] if row["tensor"].startswith("doubled")]
    assert [row["l2_rel"] for row in doubled] == [pytest.approx(0, abs=1e-3)] * 2


def test_the_programs_are_those_of_compile() -> None:
    graph = layers()
    (known,), model = intermediates(graph, "h13").programs, ane.compile(graph)
    assert [task.words for task in known.program.tasks] == [task.words for task in model.program.tasks]
    assert known.program.constants == model.program.constants
    assert len(known.results) == len(model.program.tasks)


def test_a_program_without_its_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ane.compile(layers()).save(tmp_path / "m.hwx")
    assert main(["run", str(tmp_path / "m.hwx"), "--check", "--arithmetic", "exact"]) == 1
    assert "does not hold the model" in capsys.readouterr().err


def test_host_operations_lie_between(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (2, 40))
    sorted_ = b.single("argsort", x=b.single("exp", x=x, name="powers"), axis=-1, name="order")
    y = b.single("add", x=b.single("cast", x=sorted_, dtype="fp16"), y=x)
    document = check(capsys, written(b.finish({"y": y}), tmp_path))
    assert document["host_operations"] == 1
    assert any(row["operation"].startswith("exp") and row["l2_rel"] is not None for row in document["tensors"])
