"""Convolutions and pools as ONNX nodes. Paddings are stated element by element, whatever the graph calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from openane.importers.onnx.writing.elements import Writer
from openane.importers.onnx.writing.outgoing import OutgoingNode
from openane.ops.conv import conv_window
from openane.ops.conv_transpose import transposed_axes
from openane.ops.pool import divisors, pool_window
from openane.ops.window import Window


def _pads(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """ONNX's order: what goes before each axis, then what goes behind."""
    return [before for before, _ in pairs] + [after for _, after in pairs]


def _conv(step: OutgoingNode) -> str:
    window = conv_window(step.node.operands)
    bias = step.optional("bias")
    return step.add("Conv", step.read(), step.read("weight"), *([bias] if bias else []), strides=window.strides,
                    dilations=window.dilations, pads=_pads(window.padding), kernel_shape=window.kernel,
                    group=step.arguments.integer("groups", 1))


def _conv_transpose(step: OutgoingNode) -> str:
    """What is cut off behind is a padding; where results reach beyond the last tap they are output_padding, which ONNX
    has for less than a stride: zeros are added, and the bias, where it is more."""
    axes = transposed_axes(step.node.operands)
    behind = [(axis.extent - 1) * axis.stride + axis.reach - axis.before - axis.result for axis in axes]
    if any(-count >= max(axis.stride, axis.dilation) for count, axis in zip(behind, axes, strict=True)):
        raise step.refuse("results end less than a stride behind the last tap", [axis.result for axis in axes],
                          "an output_shape that is nearer to what the kernel reaches")
    bias = step.optional("bias")
    return step.add("ConvTranspose", step.read(), step.read("weight"), *([bias] if bias else []),
                    strides=[axis.stride for axis in axes], dilations=[axis.dilation for axis in axes],
                    pads=_pads([(axis.before, max(0, count)) for axis, count in zip(axes, behind, strict=True)]),
                    output_padding=[max(0, -count) for count in behind],
                    kernel_shape=[axis.kernel for axis in axes], group=step.arguments.integer("groups", 1))


def _settings(window: Window) -> dict[str, list[int]]:
    """Attributes of a pool; what a last window reaches beyond the padding is padded too."""
    pads = [(axis.before, axis.after + axis.overhang) for axis in window.axes]
    return {"kernel_shape": list(window.kernel), "strides": list(window.strides), "pads": _pads(pads)}


def _max_pool(step: OutgoingNode) -> str:
    return step.add("MaxPool", step.read(), **_settings(pool_window(step.node.op, step.node.operands)))


def _avg_pool(step: OutgoingNode) -> str:
    """Padding counts, but what the last window of a ceiling-mode pool reaches beyond it does not: there the sum is
    taken, and divided by how many count."""
    window = pool_window(step.node.op, step.node.operands)
    excluded = step.arguments.flag("exclude_padding_from_average")
    if excluded or not any(axis.overhang for axis in window.axes):
        return step.add("AveragePool", step.read(), **_settings(window), count_include_pad=int(not excluded))
    mean = step.add("AveragePool", step.read(), **_settings(window), count_include_pad=1)
    counts = divisors(window, False)
    return step.add("Mul", mean, step.array(np.prod(window.kernel) / counts))


def _l2_pool(step: OutgoingNode) -> str:
    return step.add("LpPool", step.read(), p=2, **_settings(pool_window(step.node.op, step.node.operands)))


WRITERS: Mapping[str, Writer] = {"avg_pool": _avg_pool, "conv": _conv, "conv_transpose": _conv_transpose,
                                 "l2_pool": _l2_pool, "max_pool": _max_pool}
"""By the name of the operation."""
