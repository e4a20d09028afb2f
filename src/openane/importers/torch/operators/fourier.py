"""Fourier transforms of PyTorch, as products with constant matrices.

A transform over n elements is a product with the n x n matrix of exp(-2 pi i j k / n), its cosines and sines apart;
what nobody reads of the result (fnet takes the real part alone) goes with the rest of what is unused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.graph import Value
from openane.importers.torch.operators.complex_numbers import pair
from openane.importers.torch.step import COMPLEX, ComplexValue, Handler, Result, TorchStep


def _transform(step: TorchStep, x: ComplexValue, axis: int, matrices: tuple[np.ndarray, np.ndarray],
               part: str) -> ComplexValue:
    """x times cosines + i sines over one axis."""
    rank = x.real.type.rank
    order = [*(d for d in range(rank) if d != axis), axis]

    def along(value: Value, matrix: np.ndarray, name: str) -> Value:
        turned = value if axis == rank - 1 else step.add("transpose", part=f"{part}_{name}_rows", x=value, perm=order)
        weight = np.ascontiguousarray(matrix.T).astype(np.float16)
        product = step.add("linear", part=f"{part}_{name}", x=turned, weight=weight)
        return product if axis == rank - 1 else step.add("transpose", part=f"{part}_{name}_back", x=product,
                                                         perm=np.argsort(order).tolist())

    cosines, sines = matrices
    real, imaginary = along(x.real, cosines, "real_cosine"), along(x.real, sines, "real_sine")
    if x.imaginary is not None:
        real = step.add("sub", part=f"{part}_real", x=real, y=along(x.imaginary, sines, "imaginary_sine"))
        imaginary = step.add("add", part=f"{part}_imaginary", x=imaginary,
                             y=along(x.imaginary, cosines, "imaginary_cosine"))
    return ComplexValue(real, imaginary)


def _matrices(count: int, kept: int, scale: float, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of sign * 2 pi j k / count for j of `count` elements and k of `kept` frequencies."""
    turns = np.outer(np.arange(count), np.arange(kept)) % count * (2 * np.pi / count)
    return np.cos(turns) * scale, sign * np.sin(turns) * scale


def _scale(step: TorchStep, extents: Sequence[int]) -> float:
    """What PyTorch's code for normalisation multiplies by."""
    return float(prod(extents) ** {0: 0.0, 1: -0.5, 2: -1.0}[int(step.argument("normalization", 0))])


def _complex_transform(step: TorchStep) -> Result:
    x = pair(step, "self")
    axes = [axis % x.real.type.rank for axis in step.integers("dim")][::-1]
    scale, sign = _scale(step, [x.real.shape[axis] for axis in axes]), -1 if step.argument("forward") else 1
    return _over(step, x, axes, scale, sign)


def _over(step: TorchStep, x: ComplexValue, axes: Sequence[int], scale: float, sign: int) -> ComplexValue:
    for number, axis in enumerate(axes):
        extent = x.real.shape[axis]
        matrices = _matrices(extent, extent, 1.0 if number else scale, sign)
        x = _transform(step, x, axis, matrices, f"over{axis}")
    return x


def _real_transform(step: TorchStep) -> Result:
    """Of real numbers: over the last axis stated first, half of whose frequencies are kept where `onesided`."""
    x = ComplexValue(step.value("self"), None)
    *axes, last = (axis % x.real.type.rank for axis in step.integers("dim"))
    extent = x.real.shape[last]
    scale = _scale(step, [x.real.shape[axis] for axis in (*axes, last)])
    kept = extent // 2 + 1 if step.argument("onesided", True) else extent
    return _over(step, _transform(step, x, last, _matrices(extent, kept, scale, -1), "last"), axes[::-1], 1.0, -1)


def _real_result(step: TorchStep) -> Result:
    """Back to real numbers: the frequencies that are left out are the mirror image of those given."""
    x = pair(step, "self")
    *axes, last = (axis % x.real.type.rank for axis in step.integers("dim"))
    extent, given = int(step.argument("last_dim_size")), x.real.shape[last]
    scale = _scale(step, [*(x.real.shape[axis] for axis in axes), extent])
    x = _over(step, x, axes[::-1], 1.0, 1)
    weights = np.array([1.0 if k == 0 or 2 * k == extent else 2.0 for k in range(given)])[:, None]
    cosines, sines = (matrix.T * weights for matrix in _matrices(extent, given, scale, 1))
    return _transform(step, x, last, (cosines, sines), "last").real


OPERATORS: Mapping[str, Handler] = {COMPLEX + name: handler for name, handler in {
    "_fft_c2c": _complex_transform, "_fft_c2r": _real_result, "_fft_r2c": _real_transform}.items()}
