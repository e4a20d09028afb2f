"""Norms of an unquantised input whose results are quantised give onnxruntime's steps: on the host, which has all digits
of the input, and on the engine those of the input in fp16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.quantised_networks import drawn, node, plain

import openane as ane

WIDTH, STEP, VARIANCE = 32, np.float32(0.0283), np.float32(0.0173)
Nodes = list[onnx.NodeProto]


def quantised(name: str, step: str = "step", zero: str = "middle") -> Nodes:
    """NAME_d are a tensor's numbers in steps."""
    return [node("QuantizeLinear", [name, step, zero], [f"{name}_q"]),
            node("DequantizeLinear", [f"{name}_q", step, zero], [f"{name}_d"])]


def layer() -> Nodes:
    return [node("LayerNormalization", ["x", "g", "b"], ["n"], axis=-1)]


def written() -> Nodes:
    return [node("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1), node("Sub", ["x", "m"], ["d"]),
            node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1], keepdims=1),
            node("Add", ["v", "small"], ["a"]), node("Sqrt", ["a"], ["s"]), node("Div", ["d", "s"], ["r"]),
            node("Mul", ["r", "g"], ["t"]), node("Add", ["t", "b"], ["n"])]


def root_mean_square() -> Nodes:
    return [node("Mul", ["x", "x"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1], keepdims=1),
            node("Add", ["v", "small"], ["a"]), node("Sqrt", ["a"], ["s"]), node("Div", ["x", "s"], ["r"]),
            node("Mul", ["r", "g"], ["n"])]


def in_parts() -> Nodes:
    """The variance is quantised, and so is what is divided by its root."""
    return [node("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1), node("Sub", ["x", "m"], ["d"]),
            node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1], keepdims=1),
            *quantised("v", "spread", "none"), node("Sqrt", ["v_d"], ["s"]), node("Div", ["d", "s"], ["n"])]


def saved(nodes: Nodes, path: Path) -> Path:
    """A model of a norm's nodes from x to n, whose steps are y."""
    arrays = {"g": 1 + drawn(WIDTH, size=0.1), "b": drawn(WIDTH, size=0.1), "two": np.float32(2),
              "small": np.float32(1e-5), "step": STEP, "spread": VARIANCE, "middle": np.uint8(128), "none": np.uint8(0)}
    made = [*nodes, *quantised("n"), node("Identity", ["n_d"], ["y"])]
    used = {name for each in made for name in each.input}
    graph = helper.make_graph(
        made, "norm", *([helper.make_tensor_value_info(name, TensorProto.FLOAT, (60, WIDTH))] for name in "xy"),
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items() if name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("norm", [layer, written, root_mean_square, in_parts])
def test_steps_are_those_of_onnxruntime(norm: Callable[[], Nodes], tmp_path: Path) -> None:
    path = saved(norm(), tmp_path / "norm.onnx")
    rows = np.random.default_rng(3)
    x = (rows.standard_normal((60, WIDTH)) * rows.uniform(0.5, 1.5, (60, 1)) + 0.3).astype(np.float32)
    half = x.astype(np.float16).astype(np.float32)
    graph, wanted = ane.load_graph(path), plain(path)
    engine = ane.compile(graph, allow_host=False)
    assert not engine.host_steps
    assert np.mean(_steps(ane.run(engine, {"x": x})["y"], wanted(half)) > 0) < 2e-3, "as of numbers in fp16"
    hosted = ane.compile(graph)
    hosted.save(tmp_path / "norm.ane")
    for model in (hosted, ane.Model.load(tmp_path / "norm.ane")):
        assert model.host_steps
        off = _steps(ane.run(model, {"x": x})["y"], wanted(x))
        assert off.max() <= 1
        assert np.mean(off > 0) < (0.02 if norm is in_parts else 1e-3), "as of all digits, but for quotients"


def _steps(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.rint(np.abs(found - wanted) / STEP)
