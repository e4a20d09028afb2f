"""SVMRegressor of ai.onnx.ml: how alike a row is to every support vector, and a sum of that. Classifiers vote between
pairs of classes, which is left to a processor."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.errors import GraphError
from openane.graph import RoundedArray, Value
from openane.importers.composites import power
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _real_list(step: OnnxStep, name: str, count: int | None = None) -> np.ndarray:
    try:
        array = np.asarray(step.attributes.get(name, ()), np.float32)
    except (TypeError, ValueError):
        array = np.zeros(0, np.float32)
    if array.ndim != 1 or count not in (None, array.size):
        raise GraphError(f"{step.label}: attribute {name!r} must hold {count} numbers, found {array.size}")
    return array


def _regressor(step: OnnxStep) -> Operand:
    """The sum of coefficients times kernels, and rho; with `one_class` the sign of it."""
    kernel, transform, x = step.text("kernel_type", "LINEAR"), step.text("post_transform", "NONE"), step.real(0)
    if kernel not in KERNELS or transform != "NONE":
        raise step.refuse("kernel_type, post_transform", f"{kernel}, {transform}", f"{', '.join(KERNELS)} and NONE")
    if x.type.rank == 1:
        x = step.reshaped(x, (1, *x.shape), "row")
    count, width = step.integer("n_supports", 0), x.shape[-1]
    rho, coefficients = _real_list(step, "rho", 1), _real_list(step, "coefficients", count or width)
    vectors = _real_list(step, "support_vectors", count * width).reshape(count, width)
    if count and kernel == "LINEAR":  # one row of coefficients: sums over the vectors would cancel in fp16
        coefficients = (coefficients.astype(np.float64) @ vectors).astype(np.float32)
    alike = _kernel(step, x, kernel, vectors) if count and kernel != "LINEAR" else x
    result = step.add("linear", "sum", x=alike, weight=_digits(step, coefficients.reshape(1, -1)),
                      bias=_digits(step, rho))
    if not step.integer("one_class", 0):
        return result
    return step.add("select", cond=step.add("greater", "inside", x=result, y=0.0), a=np.float16(1), b=np.float16(-1))


def _kernel(step: OnnxStep, x: Value, kernel: str, vectors: np.ndarray) -> Value:
    """How alike rows are to support vectors: [rows, vectors]. Distances are of differences, which keep digits."""
    gamma, offset, degree = map(float, _real_list(step, "kernel_params", 3))
    if kernel == "RBF":
        bounded(step, (*x.shape[:-1], *vectors.shape))
        row = step.reshaped(x, (*x.shape[:-1], 1, x.shape[-1]), "rows")
        apart = step.add("sub", "apart", x=row, y=_digits(step, vectors))
        far = step.add("reduce_sum_square", "far", x=apart, axes=[-1], keep_dims=False)
        return step.add("exp", "alike", x=step.add("mul", "scaled", x=far, y=-gamma))
    shifted = step.add("linear", "shifted", x=x, weight=_digits(step, vectors * np.float32(gamma)),
                       bias=_digits(step, np.full(len(vectors), offset, np.float32)))
    if kernel == "SIGMOID":
        return step.add("tanh", "alike", x=shifted)
    simple = power(step, shifted, degree)
    return simple if simple is not None else step.add("pow", "alike", x=shifted, y=degree)


def _digits(step: OnnxStep, array: np.ndarray) -> RoundedArray:
    return RoundedArray(step.constants.half(array, step.name), array)


OPERATORS: Mapping[str, Handler] = {"ai.onnx.ml:SVMRegressor": _regressor}
