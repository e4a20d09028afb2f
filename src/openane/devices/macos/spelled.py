"""Operations written the way the system's compiler is known to take them rightly.

Sources are single reports of public projects, none of them contradicted at no cost: masks of fused attention are
ignored, a convolution's bias is refused, operands that have defaults are refused when they are missing, weights of a
convolution that are computed at run time are ignored. A spelling means the same wherever such a report is wrong.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Node, Operand, TensorType, Value, mil_type
from openane.ops import all_ops
from openane.ops.rewriter import Rewriter
from openane.ops.spec import Op
from openane.ops.weights import bias_behind

STEPS = ("strides", "dilations")
WINDOW = (*STEPS, "pad")
"""Operands of what looks at windows that may be left out."""
MASK = "attn_mask"


def spelled(node: Node, names: set[str], known: Container[int] = ()) -> list[Node]:
    """The nodes that say what `node` says; itself in most cases. `names` are taken, and new ones added; `known` has the
    id of every value that depends on constants alone. UnsupportedError for what no spelling saves; what is malformed
    is left to the system's compiler to refuse."""
    op = all_ops().get(node.op)
    if op is None or len(node.outputs) != 1:
        return [node]
    if node.get(MASK) is not None:
        return _taken_apart(op, node, names)
    keys = tuple(parameter.name for parameter in op.parameters if parameter.name in WINDOW)
    if not set(STEPS) & set(keys) or _rank(node, "x") < 3:
        return [node]
    return [_with_defaults(node, keys)] if op.product is None else _convolution(node, keys, known)


def _rank(node: Node, key: str) -> int:
    """Rank of an operand; -1 when there is none."""
    value = node.get(key)
    return -1 if value is None else value.type.rank


def _convolution(node: Node, keys: tuple[str, ...], known: Container[int]) -> list[Node]:
    """All operands stated, the bias added afterwards."""
    bias = node.get("bias")
    if _rank(node, "weight") < 3 or node.output.type.rank < 3 or (bias is not None and bias.type.rank != 1):
        return [node]
    if not node["weight"].constant and id(node["weight"]) not in known:
        raise UnsupportedError(node.label, "its weights are computed at run time, which the system's compiler is "
                               "reported to ignore", remedy="write it as a matmul, or run it on another device")
    stated = _with_defaults(node, keys)
    return [stated] if bias is None or not bias.constant else list(bias_behind(stated))


def _with_defaults(node: Node, keys: tuple[str, ...]) -> Node:
    """The node with strides and dilations of 1 and padding of 0 where it leaves them out."""
    spatial = len(node["x"].shape) - 2
    missing = {key: np.ones(spatial, np.int32) if key in STEPS else np.zeros(2 * spatial, np.int32)
               for key in keys if key not in node.operands}
    added: Mapping[str, Operand] = {key: _constant(f"{node.name}_{key}", array) for key, array in missing.items()}
    return replace(node, operands={**node.operands, **added}) if added else node


def _taken_apart(op: Op, node: Node, names: set[str]) -> list[Node]:
    """The operations it is made of."""
    if op.decompose is None:
        return [node]
    rewriter = Rewriter(node, names)
    try:
        op.infer(node.operands)
        return list(rewriter.instead(op.decompose(node, rewriter)))
    except GraphError:  # malformed
        return [node]


def _constant(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType(mil_type(array.dtype), array.shape), array)
