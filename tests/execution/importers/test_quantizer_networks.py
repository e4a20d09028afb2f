"""Networks of onnxruntime's quantiser, in both of its formats, beside onnxruntime without optimisations.

Layers with weights give onnxruntime's numbers, and so do networks of these. Where tensors are joined or pooled in fp16,
or go through a table, a few are a step off. The host rounds a model's inputs to their steps; where it may not, the
engine takes them in fp16, and onnxruntime's own results move by up to three steps when that is done to its input.
Weights of 7 bits in the operator format, as onnxruntime's kernels for those of 8 saturate on processors without VNNI.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from support.quantised_networks import NETWORKS, Calibration, averaged, interpolated, plain, saved

import openane as ane
from openane.cli import main
from openane.compiler.partition.hosting import LOOKUPS, AllowHost

Capture = pytest.CaptureFixture[str]
BYTES, SIGNED = QuantType.QUInt8, QuantType.QInt8
WAYS: Mapping[str, Mapping[str, Any]] = {
    "unsigned and signed": {"activation_type": BYTES, "weight_type": SIGNED, "reduce_range": True},
    "signed and symmetric per channel": {"activation_type": SIGNED, "weight_type": SIGNED, "per_channel": True,
                                         "extra_options": {"ActivationSymmetric": True}},
    "unsigned and asymmetric": {"activation_type": BYTES, "weight_type": BYTES, "reduce_range": True,
                                "extra_options": {"WeightSymmetric": False}},
    "signed per channel": {"activation_type": SIGNED, "weight_type": SIGNED, "per_channel": True}}
SAME = frozenset(("clipped", "resized", "padded", "flattened"))
"""Networks whose every number is onnxruntime's."""


def step_of(path: Path) -> float:
    """What one of 256 stands for where the network was quantised last."""
    graph = onnx.load(path).graph
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    makers = {name: each for each in graph.node for name in each.output}
    last = makers["y"]
    while last.op_type != "DequantizeLinear":
        last = makers[last.input[0]]
    return float(scales[last.input[1]])


def moved(run: Callable[[np.ndarray], np.ndarray], shape: Sequence[int]) -> float:
    """How far onnxruntime's results move when its input is rounded to fp16, at most, for some drawn ones."""
    drawn = (np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in range(20))
    return max(float(np.abs(run(x.astype(np.float16).astype(np.float32)) - run(x)).max()) for x in drawn)


def compared(name: str, form: QuantFormat, folder: Path, host: AllowHost, moving: bool) -> tuple[np.ndarray, float]:
    """How many steps each result is off, quantised in every way, and where `moving` how far onnxruntime's own results
    move when their input is rounded. `host` says what the host may do."""
    network = NETWORKS[name]()
    saved(network, folder / "m.onnx")
    numbers = np.random.default_rng(99).standard_normal(network[1]).astype(np.float32)
    steps, own = [], [0.0]
    for way in WAYS.values():
        quantised = folder / "q.onnx"
        quantize_static(folder / "m.onnx", quantised, Calibration(network[1]), quant_format=form, **way)
        wanted = plain(quantised)(numbers)
        model = ane.compile(ane.load_graph(quantised), allow_host=host)
        assert bool(model.host_operations) is (host is not False)
        found = ane.run(model, {"x": numbers})["y"]
        step = step_of(quantised)
        steps.append((np.abs(found - wanted) / step).ravel())
        if moving:
            own.append(moved(plain(quantised), network[1]) / step)
    return np.concatenate(steps), max(own)


@pytest.mark.parametrize("form", QuantFormat)
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_onnxruntime(name: str, form: QuantFormat, tmp_path: Path) -> None:
    every, _ = compared(name, form, tmp_path, LOOKUPS, False)
    assert every.max() < (0.2 if name in SAME else 1.2)
    assert np.mean(every > 0.5) < 0.35, "most are the same number"


@pytest.mark.parametrize("way", WAYS)
def test_averages_are_as_near_as_onnxruntime_is_to_itself(way: str, tmp_path: Path) -> None:
    """In the middle between two steps it takes another one with its optimisations than without, and the convolution
    behind it makes several of its own of that."""
    network = averaged()
    saved(network, tmp_path / "m.onnx")
    quantize_static(tmp_path / "m.onnx", tmp_path / "q.onnx", Calibration(network[1]), **WAYS[way])
    x = np.random.default_rng(99).standard_normal(network[1]).astype(np.float32)
    wanted, step = plain(tmp_path / "q.onnx")(x), step_of(tmp_path / "q.onnx")
    optimised = onnxruntime.InferenceSession(tmp_path / "q.onnx").run(None, {"x": x})[0]
    found = ane.run(ane.compile(ane.load_graph(tmp_path / "q.onnx")), {"x": x})["y"]
    ours, own = (np.abs(each - wanted) / step for each in (found, optimised))
    assert ours.max() < max(own.max(), 1) + 0.2
    assert np.mean(ours > 0.5) < 0.2


def test_interpolations_differ_in_nothing_but_ties(tmp_path: Path) -> None:
    """In the middle between two steps the even one is taken. onnxruntime takes either of the very same number, by what
    fp32 rounded on the way to it: no rule that looks at the number is nearer than that to three of four, and its order
    of additions alone gives every tie."""
    network = interpolated()
    saved(network, tmp_path / "m.onnx")
    quantize_static(tmp_path / "m.onnx", tmp_path / "q.onnx", Calibration(network[1]))
    model = onnx.load(tmp_path / "q.onnx")
    model.graph.output.append(onnx.helper.make_tensor_value_info("c_DequantizeLinear_Output", 1, None))
    onnx.save(model, tmp_path / "q.onnx")
    x, step = np.random.default_rng(99).standard_normal(network[1]).astype(np.float32), step_of(tmp_path / "q.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    results = onnxruntime.InferenceSession(tmp_path / "q.onnx", options).run(None, {"x": x})
    ours = ane.run(ane.compile(ane.load_graph(tmp_path / "q.onnx")), {"x": x})
    theirs, given, found = (np.rint(each.astype(np.float64) / step) for each in (*results, ours["y"]))
    places = np.clip((np.arange(48) + 0.5) / 2 - 0.5, 0, 23)
    before = np.arange(24) == np.floor(places)[:, None]
    behind = np.arange(24) == np.minimum(np.floor(places) + 1, 23)[:, None]
    weights = before * (1 - places % 1)[:, None] + behind * (places % 1)[:, None]
    exact = weights @ given @ weights.T
    np.testing.assert_array_equal(found, np.rint(exact))
    ties = exact % 1 == 0.5
    np.testing.assert_array_equal(theirs[~ties], found[~ties])
    numbers, of = np.unique(exact[ties], return_inverse=True)
    up, every = (np.bincount(of, each, len(numbers)) for each in ((theirs > exact)[ties], np.ones(of.shape)))
    assert np.maximum(up, every - up).sum() / every.sum() < 0.85
    shares = np.where((before & behind).any(1), 0.5, places % 1)
    corners = (1 - shares, before.argmax(1)), (shares, behind.argmax(1))
    total = np.zeros(exact.shape, np.float32)
    for (of_rows, row), (of_columns, column) in product(corners, corners):
        share = np.outer(of_rows, of_columns).astype(np.float32)
        total += share * results[1][..., row[:, None], column]
    np.testing.assert_array_equal(theirs, np.rint(total / np.float32(step)))


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_that_the_engine_takes_are_off_by_what_fp16_moves(name: str, tmp_path: Path) -> None:
    every, own = compared(name, QuantFormat.QDQ, tmp_path, False, True)
    assert every.max() < own + 1.5
    assert np.mean(every > 1.2) < 0.05


def test_a_file_of_one_program_leaves_the_rounding_to_the_engine(tmp_path: Path, capsys: Capture) -> None:
    network = NETWORKS["clipped"]()
    saved(network, tmp_path / "m.onnx")
    quantize_static(tmp_path / "m.onnx", tmp_path / "q.onnx", Calibration(network[1]))
    for name, count in (("q.ane", 1), ("q.hwx", 0)):
        assert main(["compile", str(tmp_path / "q.onnx"), "-o", str(tmp_path / name), "--no-cache", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["host_operations"] == count


def test_quantised_models_are_checked_operation_by_operation(tmp_path: Path) -> None:
    network = NETWORKS["perceptron"]()
    saved(network, tmp_path / "m.onnx")
    quantize_static(tmp_path / "m.onnx", tmp_path / "q.onnx", Calibration(network[1]))
    assert ane.check(ane.load_graph(tmp_path / "q.onnx")).outputs
