"""A quantised block of a transformer: each operation is within one step of onnxruntime's, given its operands; the whole
is as far from onnxruntime without optimisations as onnxruntime with them is.

Products pass on what a norm or a softmax has beside a step, and onnxruntime is not one: with its optimisations on, its
softmax between quantisations gives other steps, which are up to three at the block's end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from support.quantised_blocks import block, given_operands, steps, watched
from support.quantised_networks import Calibration, plain, saved

import openane as ane

BYTES, SIGNED = QuantType.QUInt8, QuantType.QInt8
WAYS = {"unsigned": {"activation_type": BYTES, "weight_type": BYTES},
        "signed": {"activation_type": SIGNED, "weight_type": SIGNED},
        "per channel": {"activation_type": SIGNED, "weight_type": SIGNED, "per_channel": True},
        "symmetric": {"activation_type": SIGNED, "weight_type": SIGNED, "extra_options": {"ActivationSymmetric": True}}}


def quantised(folder: Path, **way: Any) -> onnx.ModelProto:
    saved(block(), folder / "m.onnx")
    quantize_static(folder / "m.onnx", folder / "q.onnx", Calibration(block()[1]), quant_format=QuantFormat.QDQ, **way)
    return onnx.load(folder / "q.onnx")


def inputs(count: int) -> list[np.ndarray]:
    return [np.random.default_rng(100 + seed).standard_normal(block()[1]).astype(np.float32) for seed in range(count)]


@pytest.mark.parametrize("way", WAYS)
def test_every_operation_is_within_a_step_given_its_operands(way: str, tmp_path: Path) -> None:
    model = quantised(tmp_path, **WAYS[way])
    sizes = steps(model)
    assert len(sizes) > 25
    inexact = {f"{name}_DequantizeLinear_Output" for name in "pse"} | {"w_DequantizeLinear_Output", "y"}
    onnx.save(watched(model, list(sizes)), tmp_path / "all.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "all.onnx", _options("ORT_DISABLE_ALL"))
    [x] = inputs(1)
    values = dict(zip([each.name for each in session.get_outputs()], session.run(None, {"x": x}), strict=True))
    onnx.save(given_operands(model, values), tmp_path / "given.onnx")
    found = ane.run(ane.compile(ane.load_graph(tmp_path / "given.onnx")),
                    {"x": x, **{f"{name}_given": value for name, value in values.items()}})
    for name, step in sizes.items():
        off = np.abs(found[name] - values[name]) / step
        assert off.max() < 1.1, name
        assert np.mean(off > 0.5) < (0.03 if name in inexact else 1e-3), f"{name}: most are the very steps"


def test_a_block_is_nearer_than_onnxruntime_is_to_itself(tmp_path: Path) -> None:
    own, ours = [], []
    for way in ("unsigned", "signed", "per channel"):
        model = quantised(tmp_path, **WAYS[way])
        step = steps(model)[model.graph.output[0].name]
        optimised = onnxruntime.InferenceSession(tmp_path / "q.onnx", _options("ORT_ENABLE_ALL"))
        compiled = ane.compile(ane.load_graph(tmp_path / "q.onnx"))
        for x in inputs(4):
            wanted = plain(tmp_path / "q.onnx")(x)
            own.append(np.abs(optimised.run(None, {"x": x})[0] - wanted) / step)
            ours.append(np.abs(ane.run(compiled, {"x": x})["y"] - wanted) / step)
    assert np.max(ours) < max(float(np.max(own)), 2.0) + 0.2
    assert np.mean(np.concatenate(ours) > 0.5) < 0.12


def _options(level: str) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return options
