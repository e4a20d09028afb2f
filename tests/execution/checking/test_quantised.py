"""A check of quantised networks: numbers of onnxruntime's are right, and what was planted is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, quantize_static
from support.quantised_networks import NETWORKS, Calibration, plain, saved

import openane as ane
from openane.checking import Cause, Checked, document, lines
from openane.checking.check import CheckedOutput
from openane.chips import compiled_generations
from openane.cli import main
from openane.compiler import pipeline
from openane.graph import Graph

Change = Callable[[np.ndarray], np.ndarray]


def quantised(name: str, folder: Path, form: QuantFormat = QuantFormat.QDQ) -> tuple[Path, dict[str, np.ndarray]]:
    """A network, and an input for it."""
    network = NETWORKS[name]()
    saved(network, folder / "m.onnx")
    quantize_static(folder / "m.onnx", folder / "q.onnx", Calibration(network[1]), quant_format=form,
                    reduce_range=form is QuantFormat.QOperator)
    return folder / "q.onnx", {"x": np.random.default_rng(98).standard_normal(network[1]).astype(np.float32)}


def changed(path: Path, name: str, change: Change, real: bool = False) -> Path:
    """The network with another initialiser, and where asked with an output that is not quantised."""
    model = onnx.load(path)
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor)).astype(np.float32), name))
    if real:
        *nodes, product, _, last = model.graph.node
        product.output[0] = last.output[0]
        del model.graph.node[:]
        model.graph.node.extend([*nodes, product])
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("form", QuantFormat)
@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_within_a_step_of_onnxruntime_is_right(name: str, form: QuantFormat, tmp_path: Path) -> None:
    path, sample = quantised(name, tmp_path, form)
    found = ane.check(ane.load_graph(path), sample)
    assert found.right
    assert not found.faults, found.faults[0].sentence
    assert found.outputs[0].steps is not None
    assert found.outputs[0].steps <= 1


@pytest.mark.parametrize("name", ["gate", "perceptron", "residual"])
def test_a_bundle_is_checked_as_its_model_is(name: str, tmp_path: Path) -> None:
    """It is compiled again from all digits of the model's scales and weights."""
    path, sample = quantised(name, tmp_path)
    graph = ane.load_graph(path)
    ane.compile(graph, samples=sample).save(tmp_path / "q.ane")
    again = ane.check(ane.Model.load(tmp_path / "q.ane"), sample)
    assert again.outputs == ane.check(graph, sample).outputs
    assert not again.faults


def test_a_file_of_one_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its engine rounds what the host would round in a bundle."""
    path, _ = quantised("residual", tmp_path)
    asked: list[object] = []
    compile_graph = pipeline.compile_graph

    def counted(graph: Graph, *given: object, **named: object) -> object:
        asked.append(named.get("allow_host", given[1]))
        return compile_graph(graph, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "compile_graph", counted)
    assert main(["compile", str(path), "-o", str(tmp_path / "q.hwx"), "--no-cache"]) == 0
    assert asked == [False]
    asked.clear()
    assert main(["compile", str(path), "-o", str(tmp_path / "q.ane"), "--no-cache"]) == 0
    assert asked == ["lookups"]


@pytest.mark.parametrize("target", compiled_generations())
def test_every_generation_is_checked(target: str, tmp_path: Path) -> None:
    path, sample = quantised("residual", tmp_path)
    assert ane.check(ane.load_graph(path), sample, target=target).right


def test_the_reference_is_onnxruntimes_result(tmp_path: Path) -> None:
    """Scales as fp16 holds them would make other steps."""
    path, sample = quantised("classifier", tmp_path)
    found = ane.check(ane.load_graph(path), sample)
    wanted = plain(path)(sample["x"])
    row = next(each for each in found.tensors if each.tensor == "y")
    assert row.low == pytest.approx(float(wanted.min()), rel=1e-5)
    assert row.high == pytest.approx(float(wanted.max()), rel=1e-5)


def test_counted_sums_are_shown_in_steps(tmp_path: Path) -> None:
    path, sample = quantised("clipped", tmp_path)
    found = ane.check(ane.load_graph(path), sample)
    rows = [each for each in found.tensors if each.where == "counted"]
    assert rows
    assert all(-512 < row.held_low < row.held_high < 512 for row in rows if row.held_low is not None)
    assert document(found)["outputs"][0]["steps"] == 0
    assert any("in whole steps" in line for line in lines(found, True))


def test_a_layer_whose_sums_pass_the_limit_is_named(tmp_path: Path) -> None:
    path, sample = quantised("perceptron", tmp_path)
    cause = ane.check(ane.load_graph(changed(path, "w_scale", lambda scale: scale * 3000)), sample).cause
    assert cause is not None
    assert cause.cause is Cause.SUM
    assert cause.operation.startswith("linear")


def test_real_numbers_that_fp16_does_not_hold_are_named(tmp_path: Path) -> None:
    path, sample = quantised("clipped", tmp_path)
    found = ane.check(ane.load_graph(changed(path, "v_scale", lambda scale: scale * 6e4, real=True)), sample)
    assert not found.right
    assert found.cause is not None
    assert found.cause.cause is Cause.SUM
    assert "'y'" in found.cause.operation


def test_an_output_of_few_steps_is_right_where_it_is_one_off() -> None:
    """One of 256 is more than a hundredth where most numbers are small."""
    output = CheckedOutput("y", 0.03, 0, steps=1)
    assert output.right
    assert not CheckedOutput("y", 0.03, 0, steps=2).right
    assert not CheckedOutput("y", 0.03, 0).right
    found = Checked("m", "h13", "safe", "drawn", (output,), (), ())
    assert next(line for line in lines(found) if line.startswith("Right")).startswith(
        "Right: every output is no more than one of its steps of quantisation from fp32: y (by 3.0%).")
