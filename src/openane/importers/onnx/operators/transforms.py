"""ONNX DFT and STFT: a product with a constant matrix over the transformed axis and the parts of its complex numbers, a
convolution with such matrices where the axis is cut into frames."""

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


def _short_time(step: OnnxStep) -> Operand:
    """[batch, frames, bins, 2] of a signal [batch, samples, parts], each frame times the window."""
    signal, hop = step.real(0), int(step.number_in(1, "frame_step"))
    window = step.array(2, "the window").astype(np.float64) if step.has(2) else None
    length = int(step.number_in(3, "frame_length")) if step.has(3) else len(np.ones(0) if window is None else window)
    if signal.type.rank not in (2, 3) or not 0 < length <= signal.shape[1] or hop < 1:
        raise GraphError(f"{step.label}: a signal [batch, samples, parts] of at least a frame and a positive step are "
                         f"needed, found {list(signal.shape)}, frames of {length} every {hop}")
    parts = signal.shape[2] if signal.type.rank == 3 else 1
    onesided = step.integer("onesided", 1)
    bounded(step, (2 * length, parts, length))
    basis = np.fft.fft(np.eye(length) if window is None else np.diag(window))
    basis = (basis[:, :length // 2 + 1] if onesided and parts == 1 else basis).T
    rows = np.stack([np.stack([(basis * unit).real, (basis * unit).imag]) for unit in (1, 1j)[:parts]], 2)
    planes = step.add("transpose", part="parts", x=signal, perm=(0, 2, 1)) if signal.type.rank == 3 else step.add(
        "expand_dims", part="parts", x=signal, axes=[1])
    made = step.add("conv", part="frames", x=planes, strides=(hop,),
                    weight=step.half(rows.reshape(2 * len(basis), parts, length), 0))
    split = step.add("reshape", part="bins", x=made, shape=(made.shape[0], 2, len(basis), made.shape[2]))
    return step.add("transpose", x=split, perm=(0, 3, 2, 1))


OPERATORS: Mapping[str, Handler] = {"DFT": _fourier, "STFT": _short_time}
