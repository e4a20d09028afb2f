"""One node in place of two that only move elements: what the `merge` functions of operations are written with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Node, TensorType, Value


def as_other(node: Node, op: str, x: Value, **settings: object) -> Node:
    """The node as another operation on x, with constant operands of int32 or bool."""
    operands = {"x": x}
    for name, data in settings.items():
        array = np.asarray(data)
        dtype = "bool" if array.dtype == np.bool_ else "int32"
        array = array.astype(np.bool_ if dtype == "bool" else np.int32)
        operands[name] = Value(f"{node.output.name}_{name}", TensorType(dtype, array.shape), array)
    return replace(node, op=op, operands=operands)
