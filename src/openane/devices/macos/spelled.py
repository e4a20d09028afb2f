"""Operations written the way the system's compiler is known to take them rightly.

Sources are single reports of public projects, none of them contradicted at no cost: masks of fused attention are
ignored, a convolution's bias is refused, operands that have defaults are refused when they are missing, weights of a
convolution that are computed at run time are ignored. A spelling means the same wherever such a report is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import replace

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Node, Operand, TensorType, Value, mil_type

MASKED = -30000.0
"""Stands for minus infinity in fp16: beside any score in its range an exponential of it is 0, and rows that are masked
throughout stay finite."""

_CONVOLUTIONS = ("conv", "conv_transpose")
_POOLS = ("max_pool", "avg_pool", "l2_pool")


def spelled(node: Node, known: Container[int] = ()) -> list[Node]:
    """The nodes that say what `node` says; itself in most cases. `known` has the id of every value that depends on
    constants alone. UnsupportedError for what no spelling saves."""
    if not _well_formed(node):
        return [node]
    if node.op in _CONVOLUTIONS:
        return _convolution(node, known)
    if node.op in _POOLS:
        return [_with_defaults(node, ("strides", "pad"))]
    if node.op == "scaled_dot_product_attention" and node.get("attn_mask") is not None:
        return _attention(node)
    return [node]


def _well_formed(node: Node) -> bool:
    """Whether the operands are what the spellings build on; what is not is left to the system's compiler to refuse."""
    if len(node.outputs) != 1:
        return False
    if node.op in _CONVOLUTIONS:
        bias = node.get("bias")
        return all(_rank(node, key) >= 3 for key in ("x", "weight")) and (bias is None or bias.type.rank == 1) \
            and node.output.type.rank >= 3
    if node.op in _POOLS:
        return _rank(node, "x") >= 3
    return all(_rank(node, key) >= 2 and node[key].dtype != "string" for key in ("query", "key", "value")) \
        if node.op == "scaled_dot_product_attention" else True


def _rank(node: Node, key: str) -> int:
    """Rank of an operand; -1 when there is none."""
    value = node.get(key)
    return -1 if value is None else value.type.rank


def _convolution(node: Node, known: Container[int]) -> list[Node]:
    """All operands stated, the bias added afterwards."""
    if not node["weight"].constant and id(node["weight"]) not in known:
        raise UnsupportedError(node.label, "its weights are computed at run time, which the system's compiler is "
                               "reported to ignore", remedy="write it as a matmul, or run it on another device")
    stated = _with_defaults(node, ("strides", "dilations", "pad"))
    bias = node.get("bias")
    if bias is None or not bias.constant:
        return [stated]
    plain = replace(node.output, name=f"{node.output.name}_without_bias")
    shape = (1, bias.type.elements, *(1,) * (len(node.output.shape) - 2))
    channels = Value(f"{node.output.name}_bias", TensorType(bias.dtype, shape), bias.array().reshape(shape))
    operands = {key: operand for key, operand in stated.operands.items() if key != "bias"}
    return [replace(stated, operands=operands, outputs=(plain,), name=plain.name),
            Node("add", {"x": plain, "y": channels}, node.outputs, node.name, node.source)]


def _with_defaults(node: Node, keys: tuple[str, ...]) -> Node:
    """The node with strides and dilations of 1 and padding of 0 where it leaves them out."""
    spatial = len(node["x"].shape) - 2
    missing = {key: np.zeros(2 * spatial, np.int32) if key == "pad" else np.ones(spatial, np.int32)
               for key in keys if key not in node.operands}
    added: Mapping[str, Operand] = {key: _constant(f"{node.name}_{key}", array) for key, array in missing.items()}
    return replace(node, operands={**node.operands, **added}) if added else node


def _attention(node: Node) -> list[Node]:
    """softmax(query / sqrt(E) @ key^T + mask) @ value, operation by operation."""
    nodes: list[Node] = []
    query, key, mask = node["query"], node["key"], node["attn_mask"]
    scores = TensorType(query.dtype, (*query.shape[:-1], key.shape[-2]))
    stem = node.output.name

    def made(op: str, part: str, kind: TensorType, **operands: Operand) -> Value:
        result = Value(f"{stem}_{part}", kind)
        nodes.append(Node(op, operands, (result,), result.name, node.source))
        return result

    def half(part: str, number: float) -> Value:
        return _constant(f"{stem}_{part}", np.array(number, np.float16))

    product = _transposing(made, stem)
    scaled = made("mul", "scaled", query.type, x=query, y=half("scale", 1 / math.sqrt(query.shape[-1])))
    found = product("scores", scores, scaled, key, True)
    if mask.dtype == "bool":
        found = made("select", "masked", scores, cond=mask, a=found, b=half("nobody", MASKED))
    else:
        found = made("add", "masked", scores, x=found, y=mask)
    weights = made("softmax", "weights", scores, x=found, axis=_constant(f"{stem}_axis", np.array(-1, np.int32)))
    product("mixed", node.output.type, weights, node["value"], False)
    nodes[-1] = replace(nodes[-1], outputs=node.outputs, name=node.name)
    return nodes


def _transposing(made: Callable[..., Value], stem: str) -> Callable[[str, TensorType, Value, Value, bool], Value]:
    """Makes products, whether y is transposed stated as constants of the graph."""
    def product(part: str, kind: TensorType, x: Value, y: Value, transposed: bool) -> Value:
        return made("matmul", part, kind, x=x, y=y,
                    transpose_x=_constant(f"{stem}_{part}_x", np.array(False)),
                    transpose_y=_constant(f"{stem}_{part}_y", np.array(transposed)))
    return product


def _constant(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType(mil_type(array.dtype), array.shape), array)
