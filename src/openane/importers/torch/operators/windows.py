"""PyTorch convolutions, pools and normalisations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.graph import RoundedArray, Value
from openane.importers.composites import chained
from openane.importers.step import to_half
from openane.importers.torch.operators.resizing import mixed
from openane.importers.torch.step import Handler, Result, TorchStep
from openane.importers.unpooling import PooledPlaces
from openane.importers.window_taps import window_taps
from openane.ops.pool import LOWEST
from openane.ops.weights import kept_from_zero


def _pairs(counts: tuple[int, ...]) -> list[int]:
    return [count for each in counts for count in (each, each)]


def _convolution(step: TorchStep) -> Result:
    x = step.value("input")
    axes = x.type.rank - 2
    stride, padding, dilation = (step.integers(name, axes) for name in ("stride", "padding", "dilation"))
    groups, transposed = int(step.argument("groups", 1)), bool(step.argument("transposed", False))
    settings: dict[str, Any] = {"strides": stride, "dilations": dilation, "groups": groups, "pad_type": "custom",
                                "pad": _pairs(padding)}
    weight = step.value("weight") if isinstance(step.argument("weight"), Value) else step.rounded("weight")
    if not transposed:
        if not isinstance(step.argument("bias"), Value):
            return step.add("conv", x=x, weight=weight, bias=step.rounded("bias"), **settings)
        products = step.add("conv", part="products", x=x, weight=weight, **settings)
        return _with(step, products, (-1, *(1,) * axes), "bias")
    extra = step.integers("output_padding", axes)
    behind = [before - more for before, more in zip(padding, extra, strict=True)]
    settings["pad"] = [count for before, after in zip(padding, behind, strict=True)
                       for count in (before, max(0, after))]
    if min(behind) >= 0 and not isinstance(step.argument("bias"), Value):
        return step.add("conv_transpose", x=x, weight=weight, bias=step.rounded("bias"), **settings)
    whole = step.add("conv_transpose", part="whole", x=x, weight=weight, **settings)
    return _with(step, _beyond(step, whole, behind), (-1, *(1,) * axes), "bias")


def _beyond(step: TorchStep, whole: Value, behind: Sequence[int]) -> Value:
    """A transposed convolution without its bias, made longer where its output padding goes beyond what any element of
    the input reaches: nothing but the bias is there."""
    counts = [count for after in behind for count in (0, max(0, -after))]
    return step.add("pad", part="longer", x=whole, pad=[0, 0, 0, 0, *counts], mode="constant",
                    constant_val=0.0) if any(counts) else whole


def _pool_settings(step: TorchStep, x: Value, axes: int) -> dict[str, Any]:
    kernel = step.integers("kernel_size", axes)
    stride = step.integers("stride", axes) or kernel
    padding = step.integers("padding", axes) or (0,) * axes
    ceiling = bool(step.argument("ceil_mode", False))
    pads = _pairs(padding)
    if ceiling:
        _widen(x.shape[-axes:], step.shape[-axes:], kernel, stride, pads)
    return {"kernel_sizes": kernel, "strides": stride, "pad_type": "custom", "pad": pads, "ceil_mode": False}


def _widen(extents: tuple[int, ...], results: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
           pads: list[int]) -> None:
    """Padding behind, so that rounding down gives the windows that rounding up does."""
    for axis, extent in enumerate(extents):
        reach = (results[axis] - 1) * stride[axis] + kernel[axis]
        pads[2 * axis + 1] = max(0, reach - extent - pads[2 * axis])


def _pooled(step: TorchStep) -> tuple[Value, int]:
    """What is pooled, as a batch of one where the program has no batch, and the number of axes windows lie in."""
    x, axes = step.value("self"), next(count for count in (1, 2, 3) if f"{count}d" in step.op)
    return (x if x.type.rank == axes + 2 else step.reshaped(x, (1, *x.shape), "batch")), axes


def _dilated_pool(step: TorchStep, x: Value, axes: int, dilation: tuple[int, ...]) -> Result:
    """The largest of what is seen through windows with gaps: no engine pools so, but each place of a window is a part
    of x, every so many elements."""
    kernel = step.integers("kernel_size", axes)
    stride = step.integers("stride", axes) or kernel
    before = step.integers("padding", axes) or (0,) * axes
    taps = window_taps(step, x, kernel, stride, dilation, [(pad, pad) for pad in before], step.shape[-axes:], LOWEST)
    largest = step.reshaped(chained(step, "maximum", taps), step.shape)
    return (largest, None) if "indices" in step.op else largest


def _max_pool(step: TorchStep) -> Result:
    """Values, and where they were found for what puts something there again."""
    x, axes = _pooled(step)
    dilation = step.integers("dilation", axes)
    if any(each != 1 for each in dilation):
        return _dilated_pool(step, x, axes, dilation)
    settings = _pool_settings(step, x, axes)
    pooled = step.add("max_pool", part="pool", x=x, **settings)
    result = step.reshaped(pooled, step.shape)
    if "indices" not in step.op:
        return result
    return result, PooledPlaces(x, pooled, settings["kernel_sizes"], settings["strides"], tuple(settings["pad"][::2]))


def _average_pool(step: TorchStep) -> Result:
    x, axes = _pooled(step)
    settings = _pool_settings(step, x, axes)
    counted = bool(step.argument("count_include_pad", True))
    stated = _pairs(step.integers("padding", axes) or (0,) * axes)
    divisor = step.argument("divisor_override")
    if counted and divisor is None and settings["pad"] != stated:
        return step.reshaped(_average_of_counted(step, x, settings, stated), step.shape)
    result = step.add("avg_pool", part="mean", x=x, exclude_padding_from_average=not counted, **settings)
    result = step.reshaped(result, step.shape)
    if divisor is None:
        return result
    if not counted:
        raise step.refuse("divisor_override", divisor, "count_include_pad=True")
    return step.add("mul", x=result, y=prod(settings["kernel_sizes"]) / divisor)


def _average_of_counted(step: TorchStep, x: Value, settings: Mapping[str, Any], stated: Sequence[int]) -> Value:
    """Means over windows of which some reach beyond the stated padding, because the count of windows is rounded up:
    these divide by the elements that are not beyond it."""
    axes = x.type.rank - 2
    if set(step.shape[-axes:]) == {1} and not any(stated):
        return step.add("reduce_mean", x=x, axes=list(range(2, x.type.rank)), keep_dims=True)
    share = np.ones((), np.float64)
    for axis, extent in enumerate(x.shape[2:]):
        kernel, stride = settings["kernel_sizes"][axis], settings["strides"][axis]
        starts = np.arange(step.shape[axis - axes]) * stride
        inside = np.minimum(starts + kernel, extent + stated[2 * axis] + stated[2 * axis + 1]) - starts
        share = share[..., None] * (kernel / inside)
    mean = step.add("avg_pool", part="mean", x=x, exclude_padding_from_average=False, **settings)
    shares = to_half(share[None, None], f"{step.label}: a share")
    return mean if (share == 1).all() else step.add("mul", x=mean, y=shares)


def _adaptive(op: str, whole: str) -> Handler:
    """Windows of equal size, side by side, or as PyTorch spreads them where sizes do not divide the input; of maxima no
    indices."""
    def handler(step: TorchStep) -> Result:
        x = step.value("self")
        sizes = step.integers("output_size")
        axes = range(x.type.rank - len(sizes), x.type.rank)
        kernel = [x.shape[axis] // size for axis, size in zip(axes, sizes, strict=True)]
        if any(x.shape[axis] % size for axis, size in zip(axes, sizes, strict=True)):
            spread = _spread_mean if op == "avg_pool" else _spread_maximum
            result = spread(step, x, dict(zip(axes, sizes, strict=True)))
        elif set(sizes) == {1}:
            result = step.add(whole, x=x, axes=axes, keep_dims=True)
        else:
            result = step.add(op, x=x, kernel_sizes=kernel, strides=kernel, pad_type="valid")
        return (result, None) if op == "max_pool" else result
    return handler


def _windows(extent: int, count: int) -> list[range]:
    """The positions of each of `count` windows over `extent`, which may overlap."""
    return [range(number * extent // count, -(-(number + 1) * extent // count)) for number in range(count)]


def _spread_mean(step: TorchStep, x: Value, sizes: Mapping[int, int]) -> Value:
    """Means of windows of any size: products with the shares that windows have of positions."""
    return mixed(step, x, {axis: _shares(x.shape[axis], size) for axis, size in sizes.items()})


def _shares(extent: int, size: int) -> np.ndarray:
    shares = np.zeros((extent, size), np.float16)
    for number, window in enumerate(_windows(extent, size)):
        shares[window, number] = 1 / len(window)
    return shares


def _spread_maximum(step: TorchStep, x: Value, sizes: Mapping[int, int]) -> Value:
    """Maxima of windows of any size, axis by axis."""
    for axis, size in sizes.items():
        parts = []
        for window in _windows(x.shape[axis], size):
            begin, end = [0] * x.type.rank, list(x.shape)
            begin[axis], end[axis] = window.start, window.stop
            part = step.add("slice_by_index", f"window{axis}", x=x, begin=begin, end=end)
            parts.append(step.add("reduce_max", f"maximum{axis}", x=part, axes=[axis], keep_dims=True))
        x = parts[0] if size == 1 else step.add("concat", f"joined{axis}", values=tuple(parts), axis=axis)
    return x


def _batch_norm(step: TorchStep) -> Result:
    x = step.value("input")
    names = ("running_mean", "running_var", "weight", "bias")
    mean, variance, gain, offset = (
        None if step.constant(name, name) is None else step.constant(name, name).detach().double().cpu().numpy()
        for name in names)
    if mean is None or variance is None or step.argument("training", False):
        raise step.refuse("training", True, "statistics of training: export the model for inference (model.eval())")
    factor = (1 if gain is None else gain) / np.sqrt(variance + float(step.argument("eps", 1e-5)))
    half = to_half(factor, f"{step.label}: a gain")
    offset = np.zeros(()) if offset is None else offset
    # The offset takes the mean away as the rounded factor has it: its rounding changes x - mean, and not x.
    shift = to_half(offset - mean * half.astype(np.float64), f"{step.label}: an offset")
    shape = (-1, *(1,) * (x.type.rank - 2))
    scaled = step.add("mul", part="scaled", x=x, y=RoundedArray(half, factor.astype(np.float32)).reshaped(*shape))
    digits = RoundedArray(shift, (offset - mean * factor).astype(np.float32))
    result = step.add("add", x=scaled, y=digits.reshaped(*shape))
    return (result, None, None) if step.op.startswith("_native") else result


def _layer_norm(step: TorchStep) -> Result:
    """The last axes, one for each of normalized_shape."""
    x = step.value("input")
    shape = step.integers("normalized_shape")
    settings: dict[str, Any] = {"axes": range(x.type.rank - len(shape), x.type.rank), "epsilon": _epsilon(step)}
    if any(isinstance(step.argument(name), Value) for name in ("weight", "bias")):
        result = _with(step, step.add("layer_norm", part="normal", x=x, **settings), shape, "weight", "bias")
    else:
        result = step.add("layer_norm", x=x, gamma=step.half("weight"), beta=step.half("bias"), **settings)
    return (result, None, None) if step.op.startswith("native") else result


def _group_norm(step: TorchStep) -> Result:
    """Layer normalisation of each group's channels and pixels."""
    native = step.op.startswith("native")
    x = step.value("input")
    groups = int(step.argument("group" if native else "num_groups"))
    split = step.reshaped(x, (x.shape[0], groups, prod(x.shape[1:]) // groups), "groups")
    normal = step.add("layer_norm", part="normal", x=split, axes=[2], epsilon=_epsilon(step))
    result = _with(step, step.reshaped(normal, x.shape, "whole"), (-1, *(1,) * (x.type.rank - 2)), "weight", "bias")
    return (result, None, None) if native else result


def _with(step: TorchStep, x: Value, shape: Sequence[int], *names: str) -> Value:
    """`x` times the operator's weight, and its bias added: constants or values, in this shape, where they are given."""
    for name in names:
        given, op = step.argument(name), "mul" if name == "weight" else "add"
        half = None if isinstance(given, Value) else step.half(name)
        if isinstance(given, Value):
            counts = [given.type.elements if extent < 0 else extent for extent in shape]
            x = step.add(op, part=name, x=x, y=step.reshaped(step.number(name), counts, f"{name}_shaped"))
        elif half is not None:
            x = step.add(op, part=name, x=x, y=half.reshape(shape))
    return x


def _instance_norm(step: TorchStep) -> Result:
    if not step.argument("use_input_stats", True):
        return _batch_norm(step)  # by statistics that were kept, channel by channel
    x = step.value("input")
    if any(isinstance(step.argument(name), Value) for name in ("weight", "bias")):
        normal = step.add("instance_norm", part="normal", x=x, epsilon=_epsilon(step))
        return _with(step, normal, (-1, *(1,) * (x.type.rank - 2)), "weight", "bias")
    return step.add("instance_norm", x=x, gamma=step.half("weight"), beta=step.half("bias"), epsilon=_epsilon(step))


def _epsilon(step: TorchStep) -> RoundedArray:
    return kept_from_zero(float(step.argument("eps", 1e-5)))


OPERATORS: Mapping[str, Handler] = {
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"),
                    _adaptive("avg_pool", "reduce_mean")),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _average_pool),
    **dict.fromkeys(("max_pool2d", "max_pool2d_with_indices", "max_pool3d_with_indices"), _max_pool),
    **dict.fromkeys(("_native_batch_norm_legit_no_training", "batch_norm"), _batch_norm),
    **dict.fromkeys(("group_norm", "native_group_norm"), _group_norm),
    **dict.fromkeys(("layer_norm", "native_layer_norm"), _layer_norm),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_max_pool3d"), _adaptive("max_pool", "reduce_max")),
    "convolution": _convolution,
    "instance_norm": _instance_norm,
}
