"""Networks of onnxruntime's quantiser, in both of its formats, beside onnxruntime without optimisations.

Layers with weights give onnxruntime's numbers, and so do networks of these. Where tensors are joined or pooled in fp16,
or go through a table, a few are a step off, and what follows makes more of it: onnxruntime's own results move by up to
three steps when nothing but the model's input is rounded to fp16. Inputs are numbers of fp16. Weights of 7 bits in the
operator format, as onnxruntime's kernels for those of 8 saturate on processors without VNNI.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from support.quantised_networks import NETWORKS, Calibration, plain, saved

import openane as ane

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
NEAR = frozenset(("pooled", "joined", "classifier", "perceptron", "residual", "attention"))
"""Networks within a step."""


def step_of(path: Path, result: np.ndarray) -> float:
    """What one of 256 stands for in the output, where it is quantised; else 1 of 128 of its largest number."""
    graph = onnx.load(path).graph
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    [last] = [each for each in graph.node if "y" in each.output]
    return float(scales[last.input[1]]) if last.op_type == "DequantizeLinear" else float(np.abs(result).max() / 128)


def moved(run: Callable[[np.ndarray], np.ndarray], shape: Sequence[int]) -> float:
    """How far onnxruntime's results move when its input is rounded to fp16, at most, for some drawn ones."""
    drawn = (np.random.default_rng(seed).standard_normal(shape).astype(np.float32) for seed in range(20))
    return max(float(np.abs(run(x.astype(np.float16).astype(np.float32)) - run(x)).max()) for x in drawn)


def compared(name: str, form: QuantFormat, folder: Path, numbers: np.ndarray, moving: bool) -> tuple[np.ndarray, float]:
    """How many steps each result for an input is off, quantised in every way, and where `moving` how far onnxruntime's
    own results move."""
    network = NETWORKS[name]()
    saved(network, folder / "m.onnx")
    steps, own = [], [0.0]
    for way in WAYS.values():
        quantised = folder / "q.onnx"
        quantize_static(folder / "m.onnx", quantised, Calibration(network[1]), quant_format=form, **way)
        wanted = plain(quantised)(numbers)
        found = ane.run(ane.compile(ane.load_graph(quantised)), {"x": numbers})["y"]
        step = step_of(quantised, wanted)
        steps.append((np.abs(found - wanted) / step).ravel())
        if moving:
            own.append(moved(plain(quantised), network[1]) / step)
    return np.concatenate(steps), max(own)


@pytest.mark.parametrize("form", QuantFormat)
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_those_of_onnxruntime(name: str, form: QuantFormat, tmp_path: Path) -> None:
    x = np.random.default_rng(99).standard_normal(NETWORKS[name]()[1]).astype(np.float16).astype(np.float32)
    every, own = compared(name, form, tmp_path, x, name not in SAME | NEAR)
    if name in SAME:
        assert every.max() < 0.2
    assert every.max() < own + 1.5
    assert np.mean(every > 1.2) < 0.005
    assert np.mean(every > 0.5) < 0.35, "most are the same number"


@pytest.mark.parametrize("name", NETWORKS)
def test_inputs_that_fp16_rounds_are_off_by_what_that_moves(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(99).standard_normal(NETWORKS[name]()[1]).astype(np.float32)
    every, own = compared(name, QuantFormat.QDQ, tmp_path, x, True)
    assert every.max() < own + 1.5
    assert np.mean(every > 1.2) < 0.05
