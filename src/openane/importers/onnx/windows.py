"""ONNX operators that slide a window: convolution and pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.onnx.step import Handler, Operand, Step

_AUTO_PADS = {"SAME_UPPER": "same", "SAME_LOWER": "same_lower", "VALID": "valid"}


def _padding(step: Step, spatial: int) -> dict[str, Any]:
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


def _spatial(step: Step, x: Value) -> int:
    if x.type.rank < 3:
        raise GraphError(f"{step.label}: x must have a batch, a channel and spatial dimensions, found {x.type}")
    return x.type.rank - 2


def _conv(step: Step) -> Operand:
    x, weight = step.value(0), step.value(1)
    spatial = _spatial(step, x)
    ones = (1,) * spatial
    kernel = step.integers("kernel_shape", weight.shape[2:])
    if kernel != weight.shape[2:]:
        raise GraphError(f"{step.label}: kernel_shape {list(kernel)} is not that of the weight {list(weight.shape)}")
    return step.add("conv", x=x, weight=weight, bias=step.value(2) if step.has(2) else None,
                    strides=step.integers("strides", ones, spatial),
                    dilations=step.integers("dilations", ones, spatial),
                    groups=step.integer("group", 1), **_padding(step, spatial))


def _pool(step: Step, op: str, **extra: Any) -> Operand:
    x = step.value(0)
    spatial = _spatial(step, x)
    ones = (1,) * spatial
    dilations = step.integers("dilations", ones, spatial)
    if dilations != ones:
        raise step.refuse("dilations", list(dilations), "dilations of 1: no engine pools with gaps")
    kernel, strides = step.integers("kernel_shape", None, spatial), step.integers("strides", ones, spatial)
    padding = _padding(step, spatial)
    ceiling = bool(step.integer("ceil_mode", 0)) and not padding["pad_type"].startswith("same")
    pad = padding.get("pad", (0, 0) * spatial)
    worthless = extra.get("exclude_padding_from_average", True) or not any(pad)
    if ceiling and worthless and min(*kernel, *strides) > 0:
        padding, ceiling = _widened(x.shape[2:], kernel, strides, pad), False
        extra = dict.fromkeys(extra, True)
    return step.add(op, x=x, kernel_sizes=kernel, strides=strides, ceil_mode=ceiling, **padding, **extra)


def _widened(extents: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
             pads: Sequence[int]) -> dict[str, Any]:
    """Padding with which rounding down gives the windows of `ceil_mode`, where padding has no value of its own: a last
    window that is not full counts when it starts inside the input or the padding before it."""
    pad = list(pads)
    for axis, extent in enumerate(extents):
        before, after = pad[2 * axis:2 * axis + 2]
        count = -(-(extent + before + after - kernel[axis]) // strides[axis]) + 1
        if (count - 1) * strides[axis] >= extent + before:
            count -= 1
        pad[2 * axis + 1] = max(0, (count - 1) * strides[axis] + kernel[axis] - before - extent)
    return {"pad_type": "custom", "pad": pad} if any(pad) else {"pad_type": "valid"}


def _max_pool(step: Step) -> Operand:
    step.only_output("indices")
    return _pool(step, "max_pool")


def _average_pool(step: Step) -> Operand:
    return _pool(step, "avg_pool", exclude_padding_from_average=not step.integer("count_include_pad", 0))


def _global(op: str) -> Handler:
    def handler(step: Step) -> Operand:
        x = step.value(0)
        return step.add(op, x=x, axes=range(2, 2 + _spatial(step, x)), keep_dims=True)
    return handler


OPERATORS: Mapping[str, Handler] = {
    "AveragePool": _average_pool, "Conv": _conv, "GlobalAveragePool": _global("reduce_mean"),
    "GlobalMaxPool": _global("reduce_max"), "MaxPool": _max_pool,
}
