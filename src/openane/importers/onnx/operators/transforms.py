"""ONNX DFT: a product with a constant matrix over the transformed axis and the parts of its complex numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.errors import GraphError
from openane.importers.onnx.fold import bounded
from openane.importers.onnx.step import Handler, OnnxStep, Operand


def _transformed(basis: np.ndarray, length: int, inverse: bool, half: bool) -> np.ndarray:
    """Transforms of the rows of `basis`; of half a spectrum there is the other half, conjugated."""
    if inverse:
        return np.asarray(np.fft.irfft(basis, length) if half else np.fft.ifft(basis, length))
    whole = np.fft.fft(basis, length)
    return np.asarray(whole[:, :length // 2 + 1] if half else whole)


def _matrix(step: OnnxStep, extent: int, parts: int, length: int, real: bool) -> np.ndarray:
    """[results * result parts, extent * parts]: what each element of the axis, in each part, adds to the results."""
    inverse, half = bool(step.integer("inverse", 0)), bool(step.integer("onesided", 0))
    bounded(step, (extent * parts, max(2 * length, extent)))
    basis = np.zeros((extent, parts, extent), np.complex128)
    for part in range(parts):
        basis[np.arange(extent), part, np.arange(extent)] = (1, 1j)[part]
    made = _transformed(basis.reshape(extent * parts, extent), length, inverse, half)
    split = made.real[..., None] if real else np.stack([made.real, made.imag], -1)
    return np.asarray(split.reshape(extent * parts, -1).T)


def _stated_axis(step: OnnxStep) -> int:
    if step.has(2):
        return int(step.number_in(2, "axis"))
    return -2 if step.version >= 20 else step.integer("axis", 1)


def _fourier(step: OnnxStep) -> Operand:
    x = step.real(0)
    rank, given = x.type.rank, _stated_axis(step)
    axis, parts = step.front(given, rank), x.shape[-1]
    if parts not in (1, 2) or axis == rank - 1:
        raise GraphError(f"{step.label}: the last dimension must be the 1 or 2 parts of numbers, and not transformed; "
                         f"found {list(x.shape)}, axis {axis}")
    real = bool(step.integer("inverse", 0) and step.integer("onesided", 0))
    natural = 2 * (x.shape[axis] - 1) if real else x.shape[axis]
    length = int(step.number_in(1, "dft_length")) if step.has(1) else natural
    if length < 1:
        raise GraphError(f"{step.label}: dft_length must be 1 or more, found {length}")
    weight = _matrix(step, x.shape[axis], parts, length, real)
    others = [place for place in range(rank - 1) if place != axis]
    perm = [*others, axis, rank - 1]
    turned = step.add("transpose", part="turned", x=x, perm=perm)
    rows = step.add("reshape", part="rows", x=turned, shape=(prod(x.shape[place] for place in others),
                                                             x.shape[axis] * parts))
    made = step.add("linear", part="spectrum", x=rows, weight=step.half(weight, 0))
    final = 1 if real else 2
    shaped = step.add("reshape", part="parts", x=made, shape=(*(x.shape[place] for place in others),
                                                              len(weight) // final, final))
    return step.add("transpose", x=shaped, perm=np.argsort(perm))


OPERATORS: Mapping[str, Handler] = {"DFT": _fourier}
