"""Layers whose results can count whole steps in the accumulator: convolutions, products, and what is as good as one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, as_stated
from openane.ops import get_op
from openane.ops.batch_norm import constants
from openane.ops.conv import conv_window
from openane.ops.rewriter import Rewriter
from openane.ops.weights import numbers, rounded

PARTS = (1, 2, 4, 8)
"""Of what weights may be so many times one part."""
WIDEST = 1024
"""Rows of how many numbers may be multiplied by a matrix where a vector would do."""


def counting_form(node: Node, producers: Mapping[int, Node]) -> Node | None:
    """A convolution or linear layer with weights that are constants, channels first. A batch norm by itself is a
    depthwise convolution of single elements; of rows, a product with a matrix that has its gains on the diagonal."""
    if node.op == "batch_norm":
        return _depthwise(node)
    if node.op == "add":
        return _diagonal(node, producers.get(id(node["x"])))
    product = get_op(node.op).product
    made = None if product is None else product.form(node, node.output.name)
    return made if made is not None and made.op in ("conv", "linear") else None


def parts_of_steps(node: Node) -> int | None:
    """Where a node's results are averages of whole steps in so many parts of one, of weights that are such parts, as
    those of an interpolation to twice the extent: fp16 holds them as they are. None for other nodes."""
    if node.op != "linear" or node.get("bias") is not None or not node["weight"].constant:
        return None
    weight = np.abs(numbers(node["weight"]).astype(np.float64))
    if weight.sum(1).max() > 1:
        return None
    return next((parts for parts in PARTS if not np.any(weight * parts % 1)), None)


def inner_tap(node: Node, weight: np.ndarray) -> tuple[int, ...] | None:
    """The tap that is within x for every result; None where there is none."""
    if node.op == "linear":
        return ()
    taps = []
    for axis, extent in zip(conv_window(node.operands).axes, node["x"].shape[2:], strict=True):
        tap, rest = divmod(axis.before, axis.dilation)
        if rest or tap >= axis.kernel or (axis.result - 1) * axis.stride >= extent:
            return None
        taps.append(tap)
    return tuple(taps)


def _depthwise(node: Node) -> Node | None:
    x, like = node["x"], node["mean"]
    if node.computed() != (x,):
        return None
    gain, offset = constants(as_stated(node))
    if not (np.isfinite(gain).all() and np.isfinite(offset).all()):
        return None
    rewriter = Rewriter(node, set(), node.source)
    weight = rounded("weight", gain.reshape(-1, *(1,) * (x.type.rank - 1)), like, True)
    made = rewriter.single("conv", x=x, weight=weight, bias=rounded("bias", np.broadcast_to(offset, gain.shape), like,
                                                                    True), groups=len(gain), pad_type="valid")
    return None if made.type != node.output.type else rewriter.instead([made])[0]


def _diagonal(node: Node, before: Node | None) -> Node | None:
    """The linear layer of a sum of rows times a constant and another constant."""
    if before is None or before.op != "mul" or node.output.type.rank != 2 or before["x"].type != node.output.type:
        return None
    gain, offset, count = before["y"], node["y"], node.output.shape[1]
    if not (gain.constant and offset.constant and gain.type.elements == offset.type.elements == count <= WIDEST):
        return None
    if before["x"].constant or gain.shape[-1] != count or offset.shape[-1] != count:
        return None
    weight = rounded("weight", np.diag(numbers(gain).astype(np.float64).reshape(-1)), gain, True)
    bias = rounded("bias", numbers(offset).astype(np.float64).reshape(-1), offset, True)
    return Node("linear", {"x": before["x"], "weight": weight, "bias": bias}, node.outputs, node.name, node.source)
