"""max_pool and avg_pool: windows over one, two or three spatial axes of x [N, C, *spatial].

Both functions separate by axis, so the references fold one axis after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from openane.engine import Binary, Pool, Reduce
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.blocks import NUMBERS
from openane.ops.gradients import Backward, number, only, product, reshaped, total
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import Arguments
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Upstream
from openane.ops.taps import apart, taps
from openane.ops.window import Window, WindowAxis, make_window, read_window, require_elements
from openane.record_classes import dataclass

MAX_PARAMETERS = (
    Parameter("x"),
    Parameter("kernel_sizes", const=True, kind="int32"),
    Parameter("strides", const=True, default=None, kind="int32"),
    Parameter("pad_type", const=True, kind="string"),
    Parameter("pad", const=True, default=None, kind="int32"),
    Parameter("ceil_mode", const=True, default=False, kind="bool"),
)
AVG_PARAMETERS = (
    *MAX_PARAMETERS, Parameter("exclude_padding_from_average", const=True, default=False, kind="bool"))


LOWEST = -65504.0
"""Padding that no maximum comes from; a window of nothing but it is refused."""


def pool_window(name: str, operands: Mapping[str, Operand]) -> Window:
    """Kernel, strides and padding of a pooling node's operands. GraphError when they do not fit."""
    arguments = Arguments(name, AVG_PARAMETERS if name == "avg_pool" else MAX_PARAMETERS, operands)
    x = arguments.tensor("x", ranks=(3, 5))
    kernel = arguments.vector("kernel_sizes", (1,) * (x.type.rank - 2), minimum=1)
    window = read_window(arguments, x.shape[2:], kernel)
    require_elements(name, window)
    return window


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    window = pool_window(name, operands)
    arguments = Arguments(name, AVG_PARAMETERS, operands)
    if name == "avg_pool":
        arguments.flag("exclude_padding_from_average")
    x = arguments.tensor("x")
    return (TensorType(x.dtype, (*x.shape[:2], *window.results)),)


def fold(x: np.ndarray, window: Window, function: np.ufunc, fill: float, dtype: type = np.float32) -> np.ndarray:
    """Combines the elements of each window with `function`, in `dtype`; elements outside x are `fill`. Some channels at
    a time, so that what is between the axes stays in the processor's cache."""
    result = np.empty((*x.shape[:2], *window.results), dtype)
    step = max(1, NUMBERS * x.shape[1] // max(1, x[0].size))
    for source, target in zip(x, result, strict=True):
        for start in range(0, len(source), step):
            part = source[start:start + step].astype(dtype, copy=False)
            for position, axis in enumerate(window.axes, 1):
                part = _fold_axis(part, position, axis, function, fill)
            target[start:start + step] = part
    return result


def _fold_axis(x: np.ndarray, position: int, axis: WindowAxis, function: np.ufunc, fill: float) -> np.ndarray:
    along, extent = (slice(None),) * position, axis.before + axis.extent + axis.after + axis.overhang
    if extent > axis.extent:
        padded = np.full((*x.shape[:position], extent, *x.shape[position + 1:]), fill, x.dtype)
        padded[(*along, slice(axis.before, axis.before + axis.extent))] = x
        x = padded
    span = (axis.result - 1) * axis.stride + 1
    first, *others = (x[(*along, slice(tap, tap + span, axis.stride))] for tap in range(axis.kernel))
    made = None
    for other in others:
        made = function(first if made is None else made, other, out=made)
    return first if made is None else made


def divisors(window: Window, exclude_padding: bool) -> np.ndarray:
    """How many elements each average divides by, [*results]: padding counts unless excluded, overhang never does."""
    counts = np.ones(())
    for axis in window.axes:
        starts = np.arange(axis.result) * axis.stride - axis.before
        low, high = (0, axis.extent) if exclude_padding else (-axis.before, axis.extent + axis.after)
        counts = np.multiply.outer(counts, np.minimum(starts + axis.kernel, high) - np.maximum(starts, low))
    return counts


def reference_window(name: str, x: np.ndarray, kernel_sizes: np.ndarray, strides: np.ndarray | None, pad_type: str,
                     pad: np.ndarray | None, ceil_mode: np.ndarray) -> Window:
    """The window from what a reference is called with."""
    return make_window(name, x.shape[2:], _ints(kernel_sizes), pad_type=pad_type, strides=_ints(strides),
                       pad=_ints(pad), ceiling=bool(ceil_mode))


def _ints(values: np.ndarray | None) -> Sequence[int]:
    return () if values is None else tuple(int(value) for value in values)


def _max_pool(*, x: np.ndarray, kernel_sizes: np.ndarray, strides: np.ndarray | None, pad_type: str,
              pad: np.ndarray | None, ceil_mode: np.ndarray) -> tuple[np.ndarray, ...]:
    window = reference_window("max_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    return (fold(x, window, np.maximum, -np.inf, x.dtype.type),)


def _avg_pool(*, x: np.ndarray, kernel_sizes: np.ndarray, strides: np.ndarray | None, pad_type: str,
              pad: np.ndarray | None, ceil_mode: np.ndarray,
              exclude_padding_from_average: np.ndarray) -> tuple[np.ndarray, ...]:
    window = reference_window("avg_pool", x, kernel_sizes, strides, pad_type, pad, ceil_mode)
    total = fold(x, window, np.add, 0, np.float64)
    return ((total / divisors(window, bool(exclude_padding_from_average))).astype(x.dtype),)


@dataclass(frozen=True, slots=True)
class _Windows:
    """What is left of a window once axes it covers whole have been reduced."""

    source: Tensor
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]


def _reduced(node: Node, lowering: Lowering, window: Window, kind: Reduce) -> _Windows:
    """Axes whose only window is all of them and more than a kernel holds are reduced: averages of sums, or maxima."""
    source = lowering.read(node["x"])
    limit = min(lowering.limits.kernel_width, lowering.limits.kernel_height)
    long = [d for d, axis in enumerate(window.axes) if axis.whole and axis.kernel > limit]
    kernel, padding = list(window.kernel), [axis.before for axis in window.axes]
    if long:
        small = lowering.scratch(tuple(1 if d - 2 in long else extent for d, extent in enumerate(source.shape)))
        share = prod(window.kernel[d] for d in long)
        lowering.reduce(small, source, [2 + d for d in long], kind, final_scale=1 / share if kind is Reduce.SUM else 1)
        source = small
        for d in long:
            kernel[d] = 1
    return _Windows(source, tuple(kernel), window.steps, tuple(padding))


def _lower_max(node: Node, lowering: Lowering) -> None:
    """Stages of pools that fit the fields, or a reduction where the window is everything."""
    window = pool_window(node.op, node.operands)
    if window.whole:
        _reduce_all(node, lowering, Reduce.MAXIMUM, 1.0)
        return
    left = _reduced(node, lowering, window, Reduce.MAXIMUM)
    lowering.pool(lowering.result(node.output), left.source, Pool.MAXIMUM, left.kernel, left.stride, left.padding)


def _reduce_all(node: Node, lowering: Lowering, kind: Reduce, scale: float) -> None:
    """A window over everything is a reduction."""
    source = lowering.read(node["x"])
    lowering.reduce(lowering.result(node.output), source, range(2, source.rank), kind, final_scale=scale)


def _lower_average(node: Node, lowering: Lowering) -> None:
    """A depthwise convolution with weights 1 / divisor; divisors that differ by position are a product behind it."""
    window = pool_window(node.op, node.operands)
    if window.whole:
        _reduce_all(node, lowering, Reduce.SUM, 1 / prod(window.kernel))
        return
    exclude = Arguments(node.op, AVG_PARAMETERS, node.operands).flag("exclude_padding_from_average")
    counts, channels = divisors(window, exclude), node["x"].shape[1]
    left, target = _reduced(node, lowering, window, Reduce.SUM), lowering.result(node.output)
    area = float(counts.max())
    share = prod(window.kernel) / prod(left.kernel) / area
    uniform = bool((counts == area).all())
    mean = target if uniform else lowering.scratch(target.shape)
    lowering.convolution(mean, left.source, np.full((channels, 1, *left.kernel), share), None, stride=left.stride,
                         padding=left.padding, groups=channels)
    if not uniform:
        lowering.elementwise(target, mean, lowering.constant(area / counts), Binary.MULTIPLY)


def _averages(node: Node) -> int:
    """The taps of the depthwise convolution; 0 where it is a reduction, which the planar engine does."""
    window = pool_window(node.op, node.operands)
    return 0 if window.whole else prod(window.kernel)


def _gradient_average(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Each window hands its share to all of its elements: a transposed depthwise convolution with ones."""
    x, given, window = node["x"], only(upstream), pool_window(node.op, node.operands)
    exclude = Arguments(node.op, AVG_PARAMETERS, node.operands).flag("exclude_padding_from_average")
    share = product(backward, given, 1 / divisors(window, exclude))
    return {"x": put_back(backward, share, np.ones((x.shape[1], 1, *window.kernel), np.float32), x.shape, window)}


def put_back(backward: Backward, value: Value, weight: np.ndarray, shape: Sequence[int], window: Window) -> Value:
    """The transposed depthwise convolution that takes results of windows back to `shape`."""
    return backward.single(
        "conv_transpose", x=value, weight=weight, output_shape=list(shape), strides=list(window.strides),
        groups=shape[1], pad_type="custom", pad=[count for pair in window.padding for count in pair])


def _gradient_maximum(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Each window hands what it gets to those of its elements that are its maximum, in equal parts. Tap by tap the
    elements are compared with the maximum; what each gets goes back by a transposed convolution that puts tap k of a
    channel where it came from, or by mere movement where square windows lie side by side."""
    x, y, given, window = node["x"], node.output, only(upstream), pool_window(node.op, node.operands)
    masks = [number(backward, backward.single("equal", x=seen, y=y), x.dtype)
             for seen in taps(backward, x, window, LOWEST)]
    share = backward.single("real_div", x=given, y=total(backward, masks))
    parts = [apart(backward, product(backward, mask, share), 1) for mask in masks]
    together = reshaped(backward, backward.single("concat", values=tuple(parts), axis=2),
                        (x.shape[0], x.shape[1] * len(parts), *y.shape[2:]))
    steps = {count for axis in window.axes for count in (axis.kernel, axis.stride)}
    if len(steps) == 1 and len(window.axes) == 2 and not any(axis.before for axis in window.axes) \
            and y.type.elements * len(parts) == x.type.elements:
        return {"x": backward.single("pixel_shuffle", x=together, upscale_factor=min(steps))}
    weight = np.tile(np.eye(len(parts), dtype=np.float32), (x.shape[1], 1)).reshape(-1, 1, *window.kernel)
    return {"x": put_back(backward, together, weight, x.shape, window)}


OPS = (
    Op("max_pool", MAX_PARAMETERS, partial(_infer, name="max_pool"), _max_pool, rules=ENGINE, lower=_lower_max,
       gradient=_gradient_maximum, homogeneous=lambda node: ("x",),
       evidence=OperationEvidence.INFERRED,
       note="The windowed planar operation is known from register maps of later generations only."),
    Op("avg_pool", AVG_PARAMETERS, partial(_infer, name="avg_pool"), _avg_pool, rules=ENGINE,
       lower=_lower_average, gradient=_gradient_average, homogeneous=lambda node: ("x",), averages=_averages),
)
