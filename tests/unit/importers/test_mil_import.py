"""MIL programs from disk: weight files found, node types checked, the onnx package optional."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph.mil import print_mil
from openane.importers import load_graph, load_mil, load_onnx
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.version import pip_line

TEXT = """program(1.3) {{ func main<ios18>(tensor<fp16, [1, 4, 2, 2]> x) {{
    tensor<fp16, [4]> w = const()[val = tensor<fp16, [4]>(BLOBFILE(path = string("{path}"), offset = uint64(64)))];
    tensor<fp16, {result}> y = {op}(x = x)[name = string("y")]; }} -> (y, w); }}"""


@pytest.fixture
def saved(tmp_path):
    """A small network written as model.mil and weights/weight.bin."""
    builder = GraphBuilder(metadata={"dtype:in.1": "fp32"})
    x = builder.input("in.1", "fp16", (1, 3, 6, 6))
    kernel = (np.arange(8 * 3 * 9).reshape(8, 3, 3, 3) / 64 - 1).astype(np.float16)
    y = builder.add("conv", "c", x=x, weight=kernel, pad_type="same")
    graph = builder.finish({"out/1": builder.add("relu", "r", x=y)})
    text, weights = print_mil(graph)
    (tmp_path / "weights").mkdir()
    (tmp_path / "model.mil").write_text(text)
    (tmp_path / "weights" / "weight.bin").write_bytes(weights)
    return graph, tmp_path


def test_saved_programs_load_and_compute_the_same(saved):
    graph, folder = saved
    loaded = load_graph(folder / "model.mil")
    data = np.linspace(-1, 1, 108, dtype=np.float32).reshape(1, 3, 6, 6)
    assert np.array_equal(evaluate(loaded, {"in.1": data})["out/1"], evaluate(graph, {"in.1": data})["out/1"])
    assert loaded.metadata["dtype:in.1"] == "fp32"
    assert load_graph(folder / "model.mil", {"in.1": (1, 3, 6, 6)}).inputs[0].shape == (1, 3, 6, 6)
    with pytest.raises(GraphError, match=r"the program states in.1 \[1, 3, 6, 6\]"):
        load_graph(folder / "model.mil", {"in.1": (2, 3, 6, 6)})
    (folder / "weights" / "weight.bin").rename(folder / "weight.bin")
    assert load_mil(folder / "model.mil").nodes[0]["weight"].shape == (8, 3, 3, 3)
    (folder / "weight.bin").unlink()
    with pytest.raises(FormatError, match="missing"):
        load_mil(folder / "model.mil")


@pytest.mark.parametrize("path", ["../w.bin", "/etc/passwd", "@model_path/../../w.bin", "@model_path/", "a\\0b"])
def test_weights_stay_inside_the_folder(path, tmp_path):
    with pytest.raises(FormatError, match="outside"):
        load_mil(TEXT.format(path=path, op="relu", result="[1, 4, 2, 2]"), tmp_path)


def test_types_are_checked_against_the_operations(tmp_path):
    builder = GraphBuilder()
    text, weights = print_mil(builder.finish([builder.input("w", "fp16", (1,)), builder.constant(np.zeros(10, "f2"))]))
    assert text
    (tmp_path / "w.bin").write_bytes(weights)
    good = TEXT.format(path="w.bin", op="relu", result="[1, 4, 2, 2]").replace("[4]", "[10]")
    assert load_mil(good, tmp_path).nodes[0].op == "relu"
    with pytest.raises(GraphError, match=r"relu 'y' \(from MIL line 3\): declares .*2, 3\].*give .*2, 2\]"):
        load_mil(good.replace("[1, 4, 2, 2]> y", "[1, 4, 2, 3]> y"), tmp_path)
    with pytest.raises(GraphError, match=r"clip 'y'.*'alpha'"):
        load_mil(good.replace("relu", "clip"), tmp_path)
    assert load_mil(good.replace("relu", "unheard_of"), tmp_path).nodes[0].op == "unheard_of"


def test_the_onnx_package_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=re.escape(pip_line("onnx"))):
        load_onnx(b"")


def test_records_of_apples_compiler_pass_the_check(corpus, tmp_path):
    folder = corpus / "apple" / "oracles"
    spec = importlib.util.spec_from_file_location("materialise", folder / "materialise.py")
    assert spec is not None
    assert spec.loader is not None
    materialise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialise)
    for case in sorted(folder.glob("*.json")):
        materialise.main(str(case), str(tmp_path / case.stem))
        load_mil(tmp_path / case.stem / "model.mil")
