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
from openane.compiler.partition.rounded_inputs import COMPUTED, NORMALISED, ROUNDED

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


def of_steps() -> Nodes:
    """The input is divided by what is computed of its steps."""
    return [*quantised("x"), node("Mul", ["x_d", "x_d"], ["p"]), *quantised("p", "spread", "none"),
            node("ReduceMean", ["p_d"], ["v"], axes=[-1], keepdims=1), *quantised("v", "step", "none"),
            node("Sqrt", ["v_d"], ["s"]), node("Div", ["x", "s"], ["n"])]


def less_steps() -> Nodes:
    """The mean is quantised, and so is the root of the variance."""
    return [node("ReduceMean", ["x"], ["m"], axes=[-1], keepdims=1), *quantised("m"), node("Sub", ["x", "m_d"], ["d"]),
            node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1], keepdims=1),
            node("Sqrt", ["v"], ["s"]), *quantised("s", "spread", "none"), node("Div", ["d", "s_d"], ["n"])]


def in_columns() -> Nodes:
    """Not over whole rows."""
    return [node("ReduceMean", ["x"], ["m"], axes=[0], keepdims=1), node("Sub", ["x", "m"], ["d"]),
            node("Pow", ["d", "two"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[0], keepdims=1),
            node("Add", ["v", "small"], ["a"]), node("Sqrt", ["a"], ["s"]), node("Div", ["d", "s"], ["r"]),
            node("Mul", ["r", "g"], ["t"]), node("Add", ["t", "b"], ["n"])]


def standardised() -> Nodes:
    """By constants."""
    return [node("Sub", ["x", "b"], ["d"]), node("Div", ["d", "g"], ["n"])]


def batch() -> Nodes:
    return [node("Unsqueeze", ["x", "last"], ["u"]), node("BatchNormalization", ["u", "g", "b", "b", "g"], ["e"]),
            node("Squeeze", ["e", "last"], ["n"])]


def by_a_function() -> Nodes:
    """Something the engine computes is what the input is divided by."""
    return [node("Sigmoid", ["x"], ["p"]), node("ReduceMean", ["p"], ["v"], axes=[-1], keepdims=1),
            *quantised("v", "spread", "none"), node("Sqrt", ["v_d"], ["s"]), node("Div", ["x", "s"], ["n"])]


def saved(nodes: Nodes, path: Path) -> Path:
    """A model of a norm's nodes from x to n, of whose steps the engine makes y."""
    arrays = {"g": 1 + drawn(WIDTH, size=0.1), "b": drawn(WIDTH, size=0.1), "two": np.float32(2),
              "small": np.float32(1e-5), "step": STEP, "spread": VARIANCE, "middle": np.uint8(128), "none": np.uint8(0),
              "eight": np.float32(8), "last": np.array([2])}
    made = [*nodes, *quantised("n"), node("Add", ["n_d", "eight"], ["y"])]
    used = {name for each in made for name in each.input}
    graph = helper.make_graph(
        made, "norm", *([helper.make_tensor_value_info(name, TensorProto.FLOAT, (60, WIDTH))] for name in "xy"),
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items() if name in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("norm", [layer, written, root_mean_square, in_parts])
def test_steps_are_those_of_numbers_in_fp16(norm: Callable[[], Nodes], tmp_path: Path) -> None:
    path = saved(norm(), tmp_path / "norm.onnx")
    half = rows().astype(np.float16).astype(np.float32)
    engine = ane.compile(ane.load_graph(path), allow_host=False)
    assert not engine.host_steps
    assert np.mean(_steps(ane.run(engine, {"x": rows()})["y"], plain(path)(half)) > 0) < 2e-3


@pytest.mark.parametrize(("norm", "reasons"), [
    (layer, {NORMALISED}), (written, {NORMALISED}), (root_mean_square, {NORMALISED}), (in_parts, {NORMALISED}),
    (of_steps, {ROUNDED, NORMALISED}), (less_steps, {COMPUTED, NORMALISED}), (in_columns, {NORMALISED}),
    (standardised, {COMPUTED}), (batch, {COMPUTED})])
def test_steps_are_those_of_all_digits(norm: Callable[[], Nodes], reasons: set[str], tmp_path: Path) -> None:
    path = saved(norm(), tmp_path / "norm.onnx")
    hosted = ane.compile(ane.load_graph(path))
    assert {entry.reason for entry in hosted.host_operations} == reasons
    hosted.save(tmp_path / "norm.ane")
    for model in (hosted, ane.Model.load(tmp_path / "norm.ane")):
        off = _steps(ane.run(model, {"x": rows()})["y"], plain(path)(rows()))
        assert off.max() <= 1
        assert np.mean(off > 0) < 1e-3


def test_what_only_the_engine_computes_stays_there(tmp_path: Path) -> None:
    assert not ane.compile(ane.load_graph(saved(by_a_function(), tmp_path / "norm.onnx"))).host_steps


def test_where_functions_need_not_be_close_norms_stay_on_the_engine(tmp_path: Path) -> None:
    graph = ane.load_graph(saved(of_steps(), tmp_path / "norm.onnx"))
    assert {entry.reason for entry in ane.compile(graph, precision="fast").host_operations} == {ROUNDED}


def test_what_the_host_computes_may_be_named(tmp_path: Path) -> None:
    """Only the rounding of the input is, whose quotient is a whole_norm by itself."""
    graph = ane.load_graph(saved(of_steps(), tmp_path / "norm.onnx"))
    assert {entry.reason for entry in ane.compile(graph, allow_host="nearest_steps").host_operations} == {ROUNDED}


def rows() -> np.ndarray:
    drawn_from = np.random.default_rng(3)
    numbers = drawn_from.standard_normal((60, WIDTH)) * drawn_from.uniform(0.5, 1.5, (60, 1)) + 0.3
    return numbers.astype(np.float32)


def _steps(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.rint(np.abs(found - wanted) / STEP)
