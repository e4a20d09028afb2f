"""ONNX operators that slide a window: convolution and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.onnx.computed import computed_conv, computed_conv_transpose, dilated_pool
from openane.importers.onnx.single_windows import without_single_windows
from openane.importers.onnx.step import Handler, OnnxStep, Operand
from openane.rounding import ceil_div

LARGEST_POWER = 1024
"""A larger one of any number that is 1.1 % from 1 is beyond fp16."""
_AUTO_PADS = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def _padding(step: OnnxStep, spatial: int) -> dict[str, Any]:
    """MIL's `pad_type` and `pad` (before and after each axis) of ONNX's `auto_pad` and `pads` (all before, all
    after)."""
    auto = step.text("auto_pad", "NOTSET")
    if auto in _AUTO_PADS:
        return {"pad_type": _AUTO_PADS[auto]}
    if auto != "NOTSET":
        raise step.refuse("auto_pad", auto, f"NOTSET with explicit pads, or one of {', '.join(_AUTO_PADS)}")
    pads = step.integers("pads", (0,) * (2 * spatial), 2 * spatial)
    if min(pads) < 0:
        raise step.refuse("pads", list(pads), "pads of 0 or more; crop the input with Slice instead")
    if not any(pads):
        return {"pad_type": "valid"}
    return {"pad_type": "custom", "pad": [pads[side + axis] for axis in range(spatial) for side in (0, spatial)]}


def _spatial(step: OnnxStep, x: Value) -> int:
    if x.type.rank < 3:
        raise GraphError(f"{step.label}: x must have a batch, a channel and spatial dimensions, found {x.type}")
    return x.type.rank - 2


def _conv(step: OnnxStep) -> Operand:
    x = step.real(0)
    weight = step.operand(1)
    spatial = _spatial(step, x)
    ones = (1,) * spatial
    kernel = step.integers("kernel_shape", weight.shape[2:])
    if kernel != weight.shape[2:]:
        raise GraphError(f"{step.label}: kernel_shape {list(kernel)} is not that of the weight {list(weight.shape)}")
    strides, dilations = (step.integers(name, ones, spatial) for name in ("strides", "dilations"))
    groups, padding = step.integer("group", 1), _padding(step, spatial)
    if isinstance(weight, Value) or (step.has(2) and isinstance(step.operand(2), Value)):
        return computed_conv(step, x, strides=strides, dilations=dilations, groups=groups, padding=padding)
    return step.add("conv", x=x, weight=step.real(1), bias=step.real(2) if step.has(2) else None, groups=groups,
                    strides=strides, dilations=dilations, **padding)


def _conv_transpose(step: OnnxStep) -> Operand:
    """`pads` and `output_padding` are what MIL crops and the shape it states."""
    x, weight = step.real(0), step.operand(1)
    spatial = _spatial(step, x)
    ones = (1,) * spatial
    kernel = step.integers("kernel_shape", weight.shape[2:], spatial)
    strides, dilations = (step.integers(name, ones, spatial) for name in ("strides", "dilations"))
    reach = [(k - 1) * dilation + 1 for k, dilation in zip(kernel, dilations, strict=True)]
    extra = step.integers("output_padding", (0,) * spatial, spatial)
    full = [(extent - 1) * stride + length for extent, stride, length in zip(x.shape[2:], strides, reach, strict=True)]
    begin, result = _cropping(step, x.shape[2:], full, strides, extra)
    if min(begin) < 0:
        raise step.refuse("pads", begin, "pads of 0 or more")
    groups = step.integer("group", 1)
    if isinstance(weight, Value) or (step.has(2) and isinstance(step.operand(2), Value)):
        return computed_conv_transpose(step, x, begin, result, strides=strides, dilations=dilations, groups=groups)
    channels = weight.shape[1] * groups
    return step.add("conv_transpose", x=x, weight=step.real(1), bias=step.real(2) if step.has(2) else None,
                    pad_type="custom", pad=[side for pair in zip(begin, [0] * spatial, strict=True) for side in pair],
                    output_shape=(x.shape[0], channels, *result), strides=strides, dilations=dilations, groups=groups)


def _cropping(step: OnnxStep, extents: Sequence[int], full: Sequence[int], strides: Sequence[int],
              extra: Sequence[int]) -> tuple[list[int], list[int]]:
    """What is cropped in front of a transposed convolution's full result, and how much is kept."""
    auto, spatial = step.text("auto_pad", "NOTSET"), len(full)
    if auto not in ("NOTSET", *_AUTO_PADS):
        raise step.refuse("auto_pad", auto, f"NOTSET with explicit pads, or one of {', '.join(_AUTO_PADS)}")
    if auto in ("NOTSET", "VALID") and "output_shape" not in step.attributes:
        pads = step.integers("pads", (0,) * (2 * spatial), 2 * spatial)
        begin = list(pads[:spatial]) if auto == "NOTSET" else [0] * spatial
        end = pads[spatial:] if auto == "NOTSET" else [0] * spatial
        return begin, [whole + more - before - after
                       for whole, more, before, after in zip(full, extra, begin, end, strict=True)]
    stated = [extent * stride for extent, stride in zip(extents, strides, strict=True)]
    if "output_shape" in step.attributes:
        stated = list(step.integers("output_shape"))[-spatial:]
    total = [max(whole + more - kept, 0) for whole, more, kept in zip(full, extra, stated, strict=True)]
    return [cut // 2 if auto != "SAME_LOWER" else cut - cut // 2 for cut in total], stated


def _pool(step: OnnxStep, op: str, **extra: Any) -> Value:
    source = step.number(0)
    if (fewer := without_single_windows(step, source)) is not None:
        return fewer.back(_pool(fewer.step, op, **extra))
    x = step.cast(source, "fp16")
    spatial = _spatial(step, x)
    ones = (1,) * spatial
    kernel, strides = step.integers("kernel_shape", None, spatial), step.integers("strides", ones, spatial)
    dilations, padding = step.integers("dilations", ones, spatial), _padding(step, spatial)
    ceiling = bool(step.integer("ceil_mode", 0)) and not padding["pad_type"].startswith("same")
    if dilations != ones:
        result = dilated_pool(step, x, op, kernel, strides, dilations, padding, ceiling,
                              not extra.get("exclude_padding_from_average", True))
        return step.cast(result, source.dtype)
    pad = padding.get("pad", (0, 0) * spatial)
    worthless = extra.get("exclude_padding_from_average", True) or not any(pad)
    if ceiling and worthless and min(*kernel, *strides) > 0:
        padding, ceiling = _widened(x.shape[2:], kernel, strides, pad), False
        extra = dict.fromkeys(extra, True)
    result = step.add(op, x=x, kernel_sizes=kernel, strides=strides, ceil_mode=ceiling, **padding, **extra)
    return step.cast(result, source.dtype)


def _widened(extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
             pads: Sequence[int]) -> dict[str, Any]:
    """Padding with which rounding down gives the windows of `ceil_mode`, where padding has no value of its own: a last
    window that is not full counts when it starts inside the input or the padding before it."""
    pad = list(pads)
    for axis, extent in enumerate(extents):
        before, after = pad[2 * axis:2 * axis + 2]
        count = ceil_div(extent + before + after - kernel[axis], strides[axis]) + 1
        if (count - 1) * strides[axis] >= extent + before:
            count -= 1
        pad[2 * axis + 1] = max(0, (count - 1) * strides[axis] + kernel[axis] - before - extent)
    return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}


def _max_pool(step: OnnxStep) -> Operand:
    step.only_output("indices")
    return _pool(step, "max_pool")


def _average_pool(step: OnnxStep) -> Operand:
    return _pool(step, "avg_pool", exclude_padding_from_average=not step.integer("count_include_pad", 0))


def _lp_pool(step: OnnxStep) -> Operand:
    """The root of the sum of powers: sums are averages over the whole window, padding counted, times its size."""
    x, power = step.real(0), _power(step)
    kernel = step.integers("kernel_shape", None, _spatial(step, x))
    powers = _raised(step, x, power)
    mean = _pool(replace(step, inputs=(powers,)), "avg_pool", exclude_padding_from_average=False)
    return _root(step, step.add("mul", part="sums", x=mean, y=float(prod(kernel))), power)


def _power(step: OnnxStep) -> int:
    power = step.integer("p", 2)
    if not 1 <= power <= LARGEST_POWER:
        raise step.refuse("p", power, f"1 to {LARGEST_POWER}")
    return power


def _raised(step: OnnxStep, x: Value, power: int) -> Value:
    """Magnitudes to a power, by squaring: of its binary digits, the first first."""
    size = result = step.add("abs", part="size", x=x)
    for digit in f"{power:b}"[1:]:
        result = step.add("mul", part="power", x=result, y=result)
        if digit == "1":
            result = step.add("mul", part="power", x=result, y=size)
    return result


def _root(step: OnnxStep, x: Value, power: int) -> Value:
    if power == 1:
        return x
    return step.add("sqrt", x=x) if power == 2 else step.add("pow", x=x, y=np.float16(1 / power))


def _global_lp_pool(step: OnnxStep) -> Operand:
    x, power = step.real(0), _power(step)
    sums = step.add("reduce_sum", part="sums", x=_raised(step, x, power), axes=range(2, 2 + _spatial(step, x)),
                    keep_dims=True)
    return _root(step, sums, power)


def _global(op: str) -> Handler:
    def handler(step: OnnxStep) -> Operand:
        x = step.value(0)
        return step.add(op, x=x, axes=range(2, 2 + _spatial(step, x)), keep_dims=True)
    return handler


OPERATORS: Mapping[str, Handler] = {
    "AveragePool": _average_pool, "Conv": _conv, "ConvTranspose": _conv_transpose,
    "GlobalAveragePool": _global("reduce_mean"), "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global("reduce_max"), "LpPool": _lp_pool, "MaxPool": _max_pool,
}
