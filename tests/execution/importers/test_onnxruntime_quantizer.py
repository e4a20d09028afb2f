"""Models of onnxruntime's quantiser run on the engine within a step of what onnxruntime computes.

Its graph optimisations are off: on processors without VNNI its kernels for unsigned activations and signed weights
saturate. Dynamic quantisation, which has no plain kernels, uses weights of 7 bits, which cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.quantization import (
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from support.quantised_networks import Calibration, Network, drawn, node, plain, saved

import openane as ane

BYTES, SIGNED, FOUR = QuantType.QUInt8, QuantType.QInt8, QuantType.QInt4
WAYS: Mapping[str, Mapping[str, Any]] = {
    "one scale": {"activation_type": BYTES, "weight_type": SIGNED},
    "per channel": {"activation_type": BYTES, "weight_type": SIGNED, "per_channel": True},
    "signed and symmetric": {"activation_type": SIGNED, "weight_type": SIGNED, "per_channel": True,
                             "extra_options": {"ActivationSymmetric": True}},
    "unsigned": {"activation_type": BYTES, "weight_type": BYTES},
    "4 bits": {"activation_type": BYTES, "weight_type": FOUR, "per_channel": True},
    "bias of fp32": {"per_channel": True, "extra_options": {"QuantizeBias": False}},
    "pairs at weights": {"per_channel": True, "extra_options": {"AddQDQPairToWeight": True}}}


def conv() -> Network:
    return ([node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), node("Relu", ["c"], ["y"])],
            (1, 8, 9, 9), {"w": drawn(16, 8, 3, 3, size=0.1), "b": drawn(16)})


def gemm() -> Network:
    return ([node("Gemm", ["x", "w", "b"], ["y"], transB=1)], (4, 32), {"w": drawn(24, 32, size=0.2), "b": drawn(24)})


def matmul() -> Network:
    return [node("MatMul", ["x", "w"], ["y"])], (2, 5, 32), {"w": drawn(32, 12, size=0.2)}


def add() -> Network:
    """A residual: a depthwise convolution and what went into it."""
    return ([node("Conv", ["x", "w"], ["c"], group=6, pads=[1, 1, 1, 1]), node("Add", ["c", "x"], ["y"])],
            (1, 6, 5, 5), {"w": drawn(6, 1, 3, 3, size=0.3)})


MODELS = {"conv": conv, "gemm": gemm, "matmul": matmul, "add": add}


@pytest.fixture
def source(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, tuple[int, ...]]:
    """A model's file before it is quantised, and the shape of its input."""
    network = MODELS[request.param]()
    path = tmp_path / "m.onnx"
    saved(network, path)
    return path, network[1]


def step_of(path: Path) -> float:
    """What one of 256 stands for in the output."""
    graph = onnx.load(path).graph
    scales = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    [last] = [each for each in graph.node if "y" in each.output]
    assert last.op_type == "DequantizeLinear"
    return float(scales[last.input[1]])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", MODELS, indirect=True)
def test_static_quantisation_is_within_a_step(source: tuple[Path, tuple[int, ...]], way: str) -> None:
    path, shape = source
    quantised = path.with_name("q.onnx")
    quantize_static(path, quantised, Calibration(shape), quant_format=QuantFormat.QDQ, **WAYS[way])
    x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
    wanted = plain(quantised)(x)
    found = ane.run(ane.compile(ane.load_graph(quantised)), {"x": x})["y"]
    step, rounding = step_of(quantised), np.abs(wanted).max() * 2.0 ** -10
    assert np.abs(found - wanted).max() <= step + rounding
    assert np.mean(np.abs(found - wanted) > step / 2) < 0.3, "most are the same number"


@pytest.mark.parametrize("kind", [QuantType.QUInt16, QuantType.QInt16])
@pytest.mark.parametrize("source", MODELS, indirect=True)
def test_steps_of_16_bits_are_finer_than_fp16(source: tuple[Path, tuple[int, ...]], kind: QuantType) -> None:
    """And so are not taken; but the range is kept, which is all that is left of a Relu."""
    path, shape = source
    quantised = path.with_name("q.onnx")
    quantize_static(path, quantised, Calibration(shape), activation_type=kind, weight_type=SIGNED, per_channel=True)
    graph = ane.load_graph(quantised)
    assert not any(each.op == "round" for each in graph.nodes)
    x = 3 * np.random.default_rng(99).standard_normal(shape).astype(np.float32)  # beyond what was measured
    wanted = plain(quantised)(x)
    found = ane.run(ane.compile(graph), {"x": x})["y"]
    assert np.linalg.norm(found - wanted) < 2e-3 * np.linalg.norm(wanted)


@pytest.mark.parametrize("source", MODELS, indirect=True)
@pytest.mark.parametrize("signed", [True, False])
def test_dynamic_quantisation_is_within_its_rounding(source: tuple[Path, tuple[int, ...]], signed: bool) -> None:
    """Of 256 steps of the input, none is taken here."""
    path, shape = source
    quantised = path.with_name("q.onnx")
    quantize_dynamic(path, quantised, weight_type=SIGNED if signed else BYTES, per_channel=True, reduce_range=True)
    x = np.random.default_rng(99).standard_normal(shape).astype(np.float32)
    wanted = plain(quantised)(x)
    found = ane.run(ane.compile(ane.load_graph(quantised)), {"x": x})["y"]
    assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)
