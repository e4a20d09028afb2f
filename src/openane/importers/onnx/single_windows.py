"""Pools over more dimensions than MIL's have, where the windows of some hold a single number: those dimensions stand
beside the channels. JAX's windows are over all dimensions of a tensor, and are exported so."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from openane.graph import Value
from openane.importers.onnx.step import OnnxStep
from openane.record_classes import dataclass

MOST = 5
"""Dimensions that a pool of MIL reads."""


@dataclass(frozen=True, slots=True)
class FewerWindows:
    """A pool over fewer dimensions, `step`, of the one that `stated` more: `order` are the dimensions of that as they
    stand in the tensor that is pooled, of which those of extents `beside` are among the channels."""

    step: OnnxStep
    stated: OnnxStep
    order: tuple[int, ...]
    beside: tuple[int, ...]

    def back(self, pooled: Value) -> Value:
        """The result in the order and shape that the node states."""
        channels = pooled.shape[1] // prod(self.beside)
        whole = self.stated.reshaped(pooled, [pooled.shape[0], channels, *self.beside, *pooled.shape[2:]], "whole")
        return self.stated.add("transpose", x=whole, perm=[self.order.index(axis) for axis in range(len(self.order))])


def without_single_windows(step: OnnxStep, x: Value) -> FewerWindows | None:
    """The pool of `x` over the dimensions whose windows hold several numbers, or one more; None where MIL has as many
    dimensions, or no window holds a single number."""
    single = _single(step, x.type.rank - 2) if x.type.rank > MOST else []
    return _over_others(step, x, single) if single else None


def _single(step: OnnxStep, spatial: int) -> list[int]:
    """The spatial dimensions, not all, whose windows hold a single number."""
    kernel, strides = step.integers("kernel_shape", None, spatial), step.integers("strides", (1,) * spatial, spatial)
    pads = step.integers("pads", (0,) * 2 * spatial, 2 * spatial)
    return [axis for axis in range(spatial)
            if kernel[axis] == strides[axis] == 1 and not any(pads[axis::spatial])][:spatial - 1]


def _over_others(step: OnnxStep, x: Value, single: list[int]) -> FewerWindows:
    spatial = x.type.rank - 2
    pads = step.integers("pads", (0,) * 2 * spatial, 2 * spatial)
    kept = [axis for axis in range(spatial) if axis not in single]
    order = (0, 1, *(2 + axis for axis in (*single, *kept)))
    beside = tuple(x.shape[2 + axis] for axis in single)
    turned = step.add("transpose", "turned", x=x, perm=order)
    flat = step.reshaped(turned, [x.shape[0], x.shape[1] * prod(beside), *turned.shape[2 + len(single):]], "flat")
    attributes = {**step.attributes, "pads": [pads[side + axis] for side in (0, spatial) for axis in kept]}
    attributes |= {name: [step.integers(name, (1,) * spatial, spatial)[axis] for axis in kept]
                   for name in ("kernel_shape", "strides", "dilations") if name in step.attributes}
    fewer = replace(step, name=f"{step.name}_windows", inputs=(flat,), attributes=attributes)
    return FewerWindows(fewer, step, order, beside)
