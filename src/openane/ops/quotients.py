"""A quotient by one number as a product with its reciprocal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops.affine import factor

CLOSE = 2.0 ** -11
"""How far a reciprocal may be from the exact one: what rounding any number to fp16 does."""


def scalar_product(node: Node) -> Node | None:
    """A quotient by one constant number as a product with its reciprocal, and a product with a tensor of one number as
    one with that number; None for anything else, and where fp16 does not hold the reciprocal as well."""
    y = node.get("y") if node.op == "real_div" else factor(node) if node.op == "mul" else None
    if y is None or not y.constant or y.type.elements != 1 or not _plain(node, y):
        return None
    number = np.float64(y.array().ravel()[0])
    with np.errstate(over="ignore", divide="ignore"):
        wanted = 1.0 / number if node.op == "real_div" else number
        held = np.float64(np.float16(wanted))
    if not np.isfinite(held) or abs(held - wanted) > CLOSE * abs(wanted):
        return None
    data = np.asarray(wanted, y.array().dtype)
    return replace(node, op="mul", operands={"x": node["x"], "y": Value(y.name, TensorType(y.dtype, ()), data)})


def _plain(node: Node, y: Value) -> bool:
    """Whether x is computed, has the result's type, and the number is a float that is not a scalar product's yet."""
    done = node.op == "mul" and (not y.shape or node.get("y") is not y)
    return not done and y.dtype in ("fp16", "fp32") and node["x"].type == node.output.type and not node["x"].constant
