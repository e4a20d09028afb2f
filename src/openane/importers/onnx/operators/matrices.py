"""ONNX matrix products. A constant right-hand matrix makes the product a `linear` layer, whose weights are rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError
from openane.graph import RoundedArray, Value
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _matmul(step: OnnxStep) -> Operand:
    right = step.operand(1)
    if isinstance(right, Value) or right.ndim != 2:
        return step.add("matmul", x=step.value(0), y=step.value(1))
    return step.add("linear", x=step.value(0), weight=_rows(step, right.T, right))


def _rows(step: OnnxStep, rows: np.ndarray, source: np.ndarray) -> np.ndarray | RoundedArray:
    """The weight of a linear layer, with digits that fp16 has not where its source is to keep them. It lies in memory
    as its source does: a program has the channels beside each other, as matrices have that are not transposed."""
    weight = step.half(rows, 1)
    return RoundedArray(weight, np.asarray(rows, np.float32)) if step.constants.detailed(source) else weight


def _gemm(step: OnnxStep) -> Operand:
    """alpha * A' * B' + beta * C, ' being an optional transpose."""
    x, right = step.value(0), step.operand(1)
    alpha, beta = step.real_attribute("alpha", 1.0), step.real_attribute("beta", 1.0)
    left, turned = bool(step.integer("transA", 0)), bool(step.integer("transB", 0))
    if x.type.rank != 2 or len(right.shape) != 2:
        raise GraphError(f"{step.label}: A and B must be matrices, found {list(x.shape)} and {list(right.shape)}")
    if not isinstance(right, Value) and not left:
        rows = right if turned else right.T
        return _linear(step, x, _rows(step, rows if alpha == 1 else rows * np.float32(alpha), right), beta)
    product = step.add("matmul", part="product", x=x, y=step.value(1), transpose_x=left, transpose_y=turned)
    if alpha != 1:
        product = step.add("mul", part="scaled", x=product, y=alpha)
    return _added(step, product, beta)


def _linear(step: OnnxStep, x: Value, weight: np.ndarray | RoundedArray, beta: float) -> Operand:
    exact = isinstance(weight, RoundedArray)
    count = len(weight.data) if isinstance(weight, RoundedArray) else len(weight)
    bias = step.inputs[2] if step.has(2) else None
    if isinstance(bias, np.ndarray) and beta and _is_row(bias.shape, count):
        row = np.broadcast_to(bias.reshape(-1), (count,))
        row = row if beta == 1 else row * np.float32(beta)
        return step.add("linear", x=x, weight=weight, bias=step.rounded(row, 2) if exact else step.half(row, 2))
    return _added(step, step.add("linear", part="product", x=x, weight=weight), beta)


def _is_row(shape: tuple[int, ...], count: int) -> bool:
    return shape in ((), (1,), (1, 1), (count,), (1, count))


def _added(step: OnnxStep, product: Value, beta: float) -> Operand:
    """product + beta * C."""
    if not step.has(2) or not beta:
        return product
    offset = step.operand(2)
    if beta == 1:
        return step.add("add", x=product, y=step.value(2))
    if isinstance(offset, Value):
        return step.add("add", x=product, y=step.add("mul", part="offset", x=offset, y=beta))
    return step.add("add", x=product, y=step.half(offset * np.float32(beta), 2))


OPERATORS: Mapping[str, Handler] = {"Gemm": _gemm, "MatMul": _matmul}
