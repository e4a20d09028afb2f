"""A model whose file and options are those of before is found without reading the file as a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from openane import importers
from openane.cache import RECORD, Cache
from openane.cli import main
from openane.compiler.file_cache import NAMED


def model(weight: float, beside: bool, path: Path) -> Path:
    """Writes y = relu(x * weight), the weight of 1 x 8 x 16 x 16 perhaps in a file beside it."""
    held = numpy_helper.from_array(np.full((1, 8, 16, 16), weight, np.float32), "w")
    port = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 8, 16, 16)) for name in ("x", "y")}
    nodes = [helper.make_node("Mul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "main", [port["x"]], [port["y"]], [held])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path),
                    save_as_external_data=beside, location="w.bin", size_threshold=16)
    return path


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Files that were really imported, with a cache of their own."""
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    made: list[str] = []
    load = importers.load_graph
    monkeypatch.setattr(importers, "load_graph",
                        lambda path, *rest, **named: made.append(Path(path).name) or load(path, *rest, **named))
    return made


def output(path: Path, *options: str) -> np.ndarray:
    folder = path.parent / "out"
    assert main(["run", str(path), "--output-dir", str(folder), *options]) == 0
    return np.asarray(np.load(folder / "y.npy"))


def test_the_same_bytes_are_imported_once(tmp_path: Path, imports: list[str]) -> None:
    path = model(0.5, False, tmp_path / "m.onnx")
    first = output(path)
    np.testing.assert_array_equal(output(path), first)
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(path.read_bytes())
    np.testing.assert_array_equal(output(copy), first)
    assert imports == ["m.onnx"]
    assert output(model(0.25, False, path)).max() == first.max() / 2
    assert imports == ["m.onnx"] * 2


@pytest.mark.parametrize("options", [("--precision", "as-is"), ("--target", "h14"), ("--allow-host",), ("--no-cache",)])
def test_other_options_are_another_model(tmp_path: Path, imports: list[str], options: tuple[str, ...]) -> None:
    path = model(0.5, False, tmp_path / "m.onnx")
    output(path)
    output(path, *options)
    assert len(imports) == 2


def test_the_graph_of_a_remembered_model_is_read_when_it_is_asked_for(tmp_path: Path, imports: list[str],
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    path = model(0.5, False, tmp_path / "m.onnx")
    output(path)
    output(path, "--check")
    assert "y against the reference" in capsys.readouterr().out
    assert len(imports) == 2


def test_data_beside_the_file_is_looked_at_each_time(tmp_path: Path, imports: list[str]) -> None:
    path = model(0.5, True, tmp_path / "m.onnx")
    first = output(path)
    model(0.25, True, path)
    assert output(path).max() == first.max() / 2
    assert len(imports) == 2


@pytest.mark.parametrize("damage", ["the name", "the model", "no model"])
def test_what_does_not_lead_to_a_model_is_compiled_again(tmp_path: Path, imports: list[str], damage: str) -> None:
    path = model(0.5, False, tmp_path / "m.onnx")
    first = output(path)
    folder = Cache().folder
    [name] = [entry.key for entry in Cache().entries() if (folder / entry.key / NAMED).exists()]
    [made] = [entry.key for entry in Cache().entries() if entry.key != name]
    if damage == "no model":
        Cache().drop(made)
    else:
        changed = folder / (name if damage == "the name" else made)
        file = next(file for file in changed.rglob("*") if file.is_file() and file.name != RECORD)
        file.write_bytes(bytes(byte ^ 1 for byte in file.read_bytes()))
    np.testing.assert_array_equal(output(path), first)
    assert len(imports) == 2
    np.testing.assert_array_equal(output(path), first)
    assert len(imports) == 2
