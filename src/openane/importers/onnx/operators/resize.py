"""ONNX Resize and Upsample: each axis is a product with a constant matrix, which every mode of ONNX is.

Where MIL has the very operation (whole factors, nearest) that is used instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import MAXIMUM_ELEMENTS
from openane.importers.onnx.step import Handler, OnnxStep, Operand
from openane.record_classes import dataclass

PYTORCH = "pytorch"
"""What PyTorch's exporters call themselves in a model."""
Kernel = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a Resize node samples."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool
    extrapolation: float


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One resized axis: extents, the scale and the region of interest. `length` is the result's extent before it was
    rounded down, which ONNX's reference aligns corners by."""

    place: int
    extent: int
    result: int
    length: float
    scale: float
    region: tuple[float, float]


def _coordinates(axis: ResizedAxis, kind: str) -> np.ndarray | None:
    """Where in x each element of the result lies; None for a kind ONNX does not know."""
    x, extent, result = np.arange(axis.result, dtype=np.float64), axis.extent, axis.result
    centres = (x + 0.5) / axis.scale - 0.5
    start, end = axis.region
    whole = (axis.length - 1) or 1.0
    kinds: Mapping[str, Callable[[], np.ndarray]] = {
        "half_pixel": lambda: centres,
        "half_pixel_symmetric": lambda: centres + extent / 2 * (1 - result / (axis.scale * extent)),
        "pytorch_half_pixel": lambda: centres if result > 1 else x * 0,
        "align_corners": lambda: x * (extent - 1) / whole,
        "asymmetric": lambda: x / axis.scale,
        "tf_half_pixel_for_nn": lambda: (x + 0.5) / axis.scale,
        "tf_crop_and_resize": lambda: start * (extent - 1) + x * (end - start) * (extent - 1) / whole
        if result > 1 else x * 0 + 0.5 * (start + end) * (extent - 1),
    }
    return kinds[kind]() if kind in kinds else None


NEAREST: Mapping[str, Kernel] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor, "ceil": np.ceil,
}


PLAIN = {("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil")}
"""Ways to sample that repeat each element where the scale is whole."""


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(1 - np.abs(distance), 0, 1))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((d - 5) * d + 8) * d * a - 4 * a
    return np.asarray(np.where(d <= 1, near, np.where(d < 2, far, 0)))


def _matrix(step: OnnxStep, axis: ResizedAxis, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
    """Weights [result, extent], and whether a result lies outside of x."""
    if axis.result * axis.extent > MAXIMUM_ELEMENTS:
        raise UnsupportedError(step.label, "the matrix that resizes an axis is too large", limit=MAXIMUM_ELEMENTS,
                               found=f"{axis.result} x {axis.extent}", remedy="resize by whole factors")
    places = _coordinates(axis, scheme.coordinates)
    if places is None:
        raise step.refuse("coordinate_transformation_mode", scheme.coordinates, "half_pixel")
    weights = np.zeros((axis.result, axis.extent))
    rows = np.arange(axis.result)
    outside = (places < 0) | (places > axis.extent - 1)
    if scheme.mode == "nearest":
        if scheme.nearest not in NEAREST:
            raise step.refuse("nearest_mode", scheme.nearest, f"one of {', '.join(NEAREST)}")
        columns = NEAREST[scheme.nearest](places).clip(0, axis.extent - 1).astype(int)
        weights[rows, columns] = 1
        return weights, outside
    stretch = min(axis.scale, 1.0) if scheme.antialias else 1.0
    reach = int(np.ceil((2 if scheme.mode == "cubic" else 1) / stretch)) + 1
    for tap in range(-reach, reach + 1):
        columns = np.floor(places).astype(int) + tap
        distance = stretch * (columns - places)
        weight = _cubic(distance, scheme.cubic) if scheme.mode == "cubic" else _linear(distance)
        if scheme.exclude:
            weight = np.where((columns < 0) | (columns >= axis.extent), 0, weight)
        np.add.at(weights, (rows, columns.clip(0, axis.extent - 1)), weight)
    return weights / weights.sum(1, keepdims=True), outside


def _along(step: OnnxStep, x: Value, axis: ResizedAxis, scheme: Scheme) -> Value:
    """x resized along one axis."""
    weights, outside = _matrix(step, axis, scheme)
    bias = None
    if scheme.coordinates == "tf_crop_and_resize" and outside.any():
        weights[outside] = 0
        bias = (outside * scheme.extrapolation).astype(np.float16)
    last = x.type.rank - 1
    perm = [place for place in range(last + 1) if place != axis.place] + [axis.place]
    turned = step.add("transpose", part="turned", x=x, perm=perm) if axis.place != last else x
    made = step.add("linear", part=f"axis{axis.place}", x=turned, weight=weights.astype(np.float16), bias=bias)
    return step.add("transpose", x=made, perm=np.argsort(perm)) if axis.place != last else made


def _sizes(step: OnnxStep, x: Value, axes: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """Results and scales of the axes, of input `scales` or `sizes`."""
    first = 2 if step.version >= 11 else 1
    given = step.array(first, "scales") if step.has(first) else np.zeros(0)
    extents = [x.shape[axis] for axis in axes]
    if given.size:
        scales = [float(scale) for scale in given.reshape(-1)]
        if len(scales) != len(axes) or min(scales) <= 0:
            raise GraphError(f"{step.label}: scales must be {len(axes)} positive numbers, found {scales[:8]}")
        # in fp32, as runtimes do: 19 * float32(25 / 19) is 25 there and less in fp64
        whole = np.asarray(extents, np.float32) * np.asarray(scales, np.float32)
        return [int(extent) for extent in np.floor(whole)], scales
    sizes = list(step.integers_in(3, "sizes"))
    if len(sizes) != len(axes) or min(sizes, default=1) < 1:
        raise GraphError(f"{step.label}: sizes must be {len(axes)} positive integers, found {sizes[:8]}")
    scales = [size / extent for size, extent in zip(sizes, extents, strict=True)]
    return _by_policy(step, extents, sizes, scales)


def _by_policy(step: OnnxStep, extents: list[int], sizes: list[int], scales: list[float]) -> tuple[list[int],
                                                                                                   list[float]]:
    """Results and scales where all axes may have to have one scale."""
    policy = step.text("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise step.refuse("keep_aspect_ratio_policy", policy, "one of stretch, not_larger, not_smaller")
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        return [int(np.floor(extent * scale + 0.5)) for extent in extents], [scale] * len(extents)
    return sizes, scales


def _resize(step: OnnxStep) -> Operand:
    x = step.number(0)
    old = step.version < 11
    axes = step.integers("axes", range(x.type.rank)) if step.version >= 18 else tuple(range(x.type.rank))
    axes = tuple(step.front(axis, x.type.rank) for axis in axes)
    mode = step.text("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    if mode not in ("nearest", "linear", "cubic"):
        raise step.refuse("mode", mode, "one of nearest, linear, cubic")
    scheme = Scheme(mode, "asymmetric" if old else step.text("coordinate_transformation_mode", "half_pixel"),
                    "floor" if old else step.text("nearest_mode", "round_prefer_floor"),
                    step.real_attribute("cubic_coeff_a", -0.75), bool(step.integer("exclude_outside", 0)),
                    bool(step.integer("antialias", 0)), step.real_attribute("extrapolation_value", 0.0))
    results, scales = _sizes(step, x, axes)
    if min(results, default=1) < 1:
        raise UnsupportedError(step.label, "tensors without elements cannot be computed", found=f"sizes {results}",
                               remedy="scale so that an element is left")
    regions = _regions(step, scheme, len(axes))
    changed = [ResizedAxis(axis, x.shape[axis], result, _length(step, result, x.shape[axis] * scale), scale, region)
               for axis, result, scale, region in zip(axes, results, scales, regions, strict=True)
               if result != x.shape[axis] or scale != 1 or region != (0.0, 1.0)]
    return _resized(step, x, changed, scheme)


def _length(step: OnnxStep, result: int, exact: float) -> float:
    """The extent corners are aligned by. ONNX's own reference takes the one that was not rounded down; PyTorch, whose
    exporter writes scales, and onnxruntime take the result's."""
    return exact if step.producer != PYTORCH and int(np.floor(exact)) == result else float(result)


def _regions(step: OnnxStep, scheme: Scheme, count: int) -> list[tuple[float, float]]:
    if scheme.coordinates != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    region = step.array(1, "roi").reshape(-1)
    if region.size != 2 * count:
        raise GraphError(f"{step.label}: roi must hold {2 * count} numbers, found {region.size}")
    return [(float(region[place]), float(region[count + place])) for place in range(count)]


def _resized(step: OnnxStep, x: Value, axes: list[ResizedAxis], scheme: Scheme) -> Value:
    dtype, x = x.dtype, step.cast(x, "fp16")
    whole = all(axis.place in (2, 3) and axis.scale == int(axis.scale) for axis in axes)
    plain = (scheme.coordinates, scheme.nearest) in PLAIN
    if scheme.mode == "nearest" and plain and whole and x.type.rank == 4 and axes:
        factors = {axis.place: axis.scale for axis in axes}
        x = step.add("upsample_nearest_neighbor", x=x, scale_factor_height=factors.get(2, 1.0),
                     scale_factor_width=factors.get(3, 1.0))
    else:
        for axis in axes:
            x = _along(step, x, axis, scheme)
    return step.cast(x, dtype)


def _upsample(step: OnnxStep) -> Operand:
    """As Resize of opset 10; opset 7 states the scales as an attribute."""
    if step.version >= 9:
        return _resize(step)
    raise UnsupportedError(step.label, "Upsample is read from opset 9 on", found=f"opset {step.version}",
                           remedy="onnx.version_converter.convert_version(model, 13)")


OPERATORS: Mapping[str, Handler] = {"Resize": _resize, "Upsample": _upsample}
