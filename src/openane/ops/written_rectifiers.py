"""Rectifiers that are written out as the sum of both sides: relu(x) and a slope times what of x is below 0, as ONNX's
PRelu is taken apart and as Keras writes it, with relu(-x).

Slopes by channel are a prelu. Where no slope exceeds 1 the larger of x and slope * x is the same, where none is below
it the smaller: a task less than both sides and their sum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, RoundedConstant, Value
from openane.ops.arithmetic import scalar
from openane.ops.rewriter import Rewriter

CHANNELS = 1
RANKS = range(3, 6)
"""Dimensions of what a prelu takes."""


def written_rectifier(node: Node, names: set[str], producers: Mapping[int, Node]) -> tuple[Node, ...] | None:
    """The nodes that compute such a sum; None where it is none, or its slopes lie on both sides of 1."""
    if node.op not in ("add", "sub"):
        return None
    sides = [producers.get(id(node[name])) for name in ("x", "y")]
    for above, below in (sides, sides[::-1]) if node.op == "add" else (sides,):
        if above is None or below is None or above.op != "relu":
            continue
        slopes = _slopes(below, above["x"], producers)
        if slopes is not None and above["x"].type == node.output.type:
            return _made(node, names, above["x"], _negated(slopes) if node.op == "sub" else slopes)
    return None


def _slopes(node: Node, x: Value, producers: Mapping[int, Node]) -> Value | None:
    """What the part of x below 0 is multiplied by, where the node is that product."""
    if node.op != "mul":
        return None
    for side, slopes in ((node["x"], node["y"]), (node["y"], node["x"])):
        part = producers.get(id(side))
        if part is None or not slopes.constant or slopes.type.elements == 1:
            continue
        if part.op == "minimum" and part["x"] is x and scalar(part["y"]) == 0:
            return slopes
        if part.op == "relu" and _is_negative(producers.get(id(part["x"])), x):
            return _negated(slopes)
    return None


def _is_negative(node: Node | None, x: Value) -> bool:
    return node is not None and node.op == "mul" and node["x"] is x and scalar(node["y"]) == -1


def _negated(constant: Value) -> Value:
    if isinstance(constant, RoundedConstant):
        return RoundedConstant(constant.name, constant.type, -constant.array(), stated=-constant.digits())
    return Value(constant.name, constant.type, -constant.array())


def _made(node: Node, names: set[str], x: Value, slopes: Value) -> tuple[Node, ...] | None:
    rewriter, array = Rewriter(node, names), slopes.array()
    if x.type.rank in RANKS and _by_channel(array, x.shape):
        return rewriter.instead([rewriter.single("prelu", x=x, alpha=array.reshape(-1))])
    if not ((array <= 1).all() or (array >= 1).all()):
        return None
    larger = "maximum" if (array <= 1).all() else "minimum"
    return rewriter.instead([rewriter.single(larger, x=x, y=rewriter.single("mul", x=x, y=slopes))])


def _by_channel(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    wide = (1,) * (len(shape) - array.ndim) + array.shape
    return array.ndim <= len(shape) and wide == tuple(extent if axis == CHANNELS else 1
                                                      for axis, extent in enumerate(shape))
