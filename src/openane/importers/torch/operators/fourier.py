"""PyTorch's complex numbers, as pairs of tensors, and Fourier transforms, as products with constant matrices.

A transform over n elements is a product with the n x n matrix of exp(-2 pi i j k / n), its cosines and sines apart;
what nobody reads of the result (fnet takes the real part alone) goes with the rest of what is unused. Complex
arithmetic is what rotary embeddings written with `view_as_complex` need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.composites import arc_tangent_of
from openane.importers.torch.operators.layout import OPERATORS as LAYOUT
from openane.importers.torch.step import COMPLEX, ComplexValue, Handler, Result, TorchStep


def _pair(step: TorchStep, name: str) -> ComplexValue:
    """A tensor argument, complex or real, as a pair."""
    found = step.argument(name)
    if isinstance(found, ComplexValue):
        return found
    if not isinstance(found, Value) and hasattr(found, "is_complex") and found.is_complex():
        return ComplexValue(step.as_value(found.real.contiguous(), name), step.as_value(found.imag.contiguous(), name))
    if isinstance(found, bool | int | float):
        return ComplexValue(step.builder.constant(np.float16(found)), None)
    return ComplexValue(step.matched(step.as_value(found, name), "float"), None)


def _imaginary(step: TorchStep, pair: ComplexValue) -> Value:
    if pair.imaginary is not None:
        return pair.imaginary
    return step.builder.constant(np.zeros(pair.real.shape, np.float16))


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
    x = _pair(step, "self")
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
    x = _pair(step, "self")
    *axes, last = (axis % x.real.type.rank for axis in step.integers("dim"))
    extent, given = int(step.argument("last_dim_size")), x.real.shape[last]
    scale = _scale(step, [*(x.real.shape[axis] for axis in axes), extent])
    x = _over(step, x, axes[::-1], 1.0, 1)
    weights = np.array([1.0 if k == 0 or 2 * k == extent else 2.0 for k in range(given)])[:, None]
    cosines, sines = (matrix.T * weights for matrix in _matrices(extent, given, scale, 1))
    return _transform(step, x, last, (cosines, sines), "last").real


def _as_real(step: TorchStep) -> Result:
    x = _pair(step, "self")
    return step.add("stack", values=(x.real, _imaginary(step, x)), axis=x.real.type.rank)


def _as_complex(step: TorchStep) -> Result:
    x = step.value("self")
    shape, rank = x.shape[:-1], x.type.rank
    parts = [step.add("slice_by_index", part=name, x=x, begin=[0] * (rank - 1) + [i], end=[*shape, i + 1],
                      squeeze_mask=[False] * (rank - 1) + [True]) for i, name in enumerate(("real", "imaginary"))]
    return ComplexValue(*parts)


def _magnitude(step: TorchStep) -> Result:
    x = _pair(step, "self")
    squares = [step.add("square", part=name, x=each)
               for name, each in (("real", x.real), ("imaginary", _imaginary(step, x)))]
    return step.add("sqrt", x=step.add("add", part="sum", x=squares[0], y=squares[1]))


def _angle(step: TorchStep) -> Result:
    x = _pair(step, "self")
    return arc_tangent_of(step, _imaginary(step, x), x.real)


def _of_angle(step: TorchStep) -> Result:
    """A length and an angle."""
    size, angle = step.value("abs"), step.value("angle")
    real, imaginary = (step.add("mul", part=f"{name}_part", x=size, y=step.add(name, part=name, x=angle))
                       for name in ("cos", "sin"))
    return ComplexValue(real, imaginary)


def _product(step: TorchStep) -> Result:
    x, y = _pair(step, "self"), _pair(step, "other")

    def times(part: str, a: Value | None, b: Value | None) -> Value | None:
        return None if a is None or b is None else step.add("mul", part=part, x=a, y=b)

    def together(op: str, part: str, a: Value | None, b: Value | None) -> Value | None:
        return a if b is None else b if a is None else step.add(op, part=part, x=a, y=b)

    real = together("sub", "real", times("rr", x.real, y.real), times("ii", x.imaginary, y.imaginary))
    assert real is not None
    return ComplexValue(real, together("add", "imaginary", times("ri", x.real, y.imaginary),
                                       times("ir", x.imaginary, y.real)))


def _sum(op: str) -> Handler:
    def handler(step: TorchStep) -> Result:
        x, y = _pair(step, "self"), _pair(step, "other")
        real = step.add(op, part="real", x=x.real, y=y.real)
        if x.imaginary is None and y.imaginary is None:
            return ComplexValue(real, None)
        return ComplexValue(real, step.add(op, part="imaginary", x=_imaginary(step, x), y=_imaginary(step, y)))
    return handler


def _of_parts(step: TorchStep) -> Result:
    return ComplexValue(step.value("real"), step.value("imag"))


def _conjugate(step: TorchStep) -> Result:
    x = _pair(step, "self")
    return ComplexValue(x.real, None if x.imaginary is None else step.add("mul", x=x.imaginary, y=-1.0))


def _moved(name: str) -> Handler:
    """What only rearranges elements does so with both parts."""
    def handler(step: TorchStep) -> Result:
        def part(value: Value | None, which: str) -> Any:
            return None if value is None else LAYOUT[name](replace(
                step, name=f"{step.name}_{which}", kind="float", arguments={**step.arguments, "self": value}))
        x = _pair(step, "self")
        return ComplexValue(part(x.real, "real"), part(x.imaginary, "imaginary"))
    return handler


_MOVES = ("_unsafe_view", "expand", "flip", "permute", "repeat", "reshape", "roll", "select", "slice", "squeeze",
          "transpose", "unsqueeze", "view")

OPERATORS: Mapping[str, Handler] = {
    **{COMPLEX + name: _moved(name) for name in _MOVES},
    **{COMPLEX + name: lambda step: _pair(step, "self") for name in ("_to_copy", "alias", "clone", "detach")},
    **{COMPLEX + name: handler for name, handler in {
        "_conj": _conjugate, "_conj_physical": _conjugate, "_fft_c2c": _complex_transform, "_fft_c2r": _real_result,
        "_fft_r2c": _real_transform, "abs": _magnitude, "add": _sum("add"), "angle": _angle, "complex": _of_parts,
        "conj_physical": _conjugate, "imag": lambda step: _imaginary(step, _pair(step, "self")), "mul": _product,
        "polar": _of_angle, "real": lambda step: _pair(step, "self").real,
        "resolve_conj": lambda step: _pair(step, "self"),
        "sub": _sum("sub"), "view_as_complex": _as_complex, "view_as_real": _as_real}.items()},
}
