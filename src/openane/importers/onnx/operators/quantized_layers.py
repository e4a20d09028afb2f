"""onnxruntime's operators whose inputs and results are quantised (QLinear..., QGemm), which its quantiser writes in the
operator format: the operator of real numbers between a dequantisation and a quantisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.onnx.operators import activations, elementwise, layout, matrices, reductions, windows
from openane.importers.onnx.operators.microsoft import DOMAIN
from openane.importers.onnx.operators.quantized import dequantized, quantized
from openane.importers.onnx.step import Handler, OnnxStep, Operand

VERSION = 17
"""The operator set whose operators of real numbers these are like."""


def _real(step: OnnxStep, handler: Handler, inputs: Sequence[Operand | None], version: int = VERSION) -> Value:
    """The result of the operator of real numbers."""
    made = handler(replace(step, inputs=inputs, input_names=[step.name] * len(inputs), version=version))
    assert not isinstance(made, tuple)
    return step.constants.value(made, step.name) if isinstance(made, np.ndarray) else made


def _of_one(handler: Handler) -> Handler:
    """x, its scale and zero point, and those of the result."""
    def imported(step: OnnxStep) -> Operand:
        if step.integer("channels_last", 0):
            raise UnsupportedError(step.label, "channels are the second dimension", found="channels_last = 1",
                                   remedy="quantise before the layout is changed")
        version = step.integer("opset", VERSION)
        return quantized(step, _real(step, handler, [dequantized(step, 0)], version), 3)
    return imported


def _of_two(handler: Handler) -> Handler:
    """a and b, each with its scale and zero point, and those of the result."""
    def imported(step: OnnxStep) -> Operand:
        return quantized(step, _real(step, handler, [dequantized(step, 0), dequantized(step, 3)]), 6)
    return imported


def _concat(step: OnnxStep) -> Operand:
    """The scale and zero point of the result, then parts with theirs."""
    parts = [dequantized(step, index) for index in range(2, len(step.inputs), 3)]
    return quantized(step, _real(step, layout.OPERATORS["Concat"], parts), 0)


def _where(step: OnnxStep) -> Operand:
    inputs = [step.operand(0), dequantized(step, 1), dequantized(step, 4)]
    return quantized(step, _real(step, elementwise.OPERATORS["Where"], inputs), 7)


def _gemm(step: OnnxStep) -> Operand:
    """The bias counts in units of both scales; without a scale of the result that is real."""
    axis = int(not step.integer("transB", 0))
    inputs: list[Operand | None] = [dequantized(step, 0), dequantized(replace(step, attributes={"axis": axis}), 3)]
    if step.has(6):
        unit = step.real_attribute("alpha", 1.0)
        scales = [step.array(index, "the scale of a quantisation").astype(np.float64).reshape(-1) for index in (1, 4)]
        bias = step.array(6, "the bias of a quantised product").astype(np.float64)
        inputs.append((bias * unit * scales[0] * scales[1]).astype(np.float32))
    product = _real(step, matrices.OPERATORS["Gemm"], inputs)
    return quantized(step, product, 7) if step.has(7) else product


OPERATORS: Mapping[str, Handler] = {f"{DOMAIN}:{name}": handler for name, handler in {
    "QGemm": _gemm, "QLinearAdd": _of_two(elementwise.OPERATORS["Add"]),
    "QLinearAveragePool": _of_one(windows.OPERATORS["AveragePool"]), "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _of_one(windows.OPERATORS["GlobalAveragePool"]),
    "QLinearLeakyRelu": _of_one(activations.OPERATORS["LeakyRelu"]),
    "QLinearMul": _of_two(elementwise.OPERATORS["Mul"]),
    "QLinearReduceMean": _of_one(reductions.OPERATORS["ReduceMean"]),
    "QLinearSigmoid": _of_one(activations.OPERATORS["Sigmoid"]),
    "QLinearSoftmax": _of_one(reductions.OPERATORS["Softmax"]), "QLinearWhere": _where}.items()}
