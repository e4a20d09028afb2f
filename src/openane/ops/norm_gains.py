"""Gains and offsets of a layer norm as part of the weights behind it: norm(x) * gain + offset, times W, is norm(x)
times (gain * W), plus offset times W."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Node, Value
from openane.ops.weights import constant

LARGEST = 2.0 ** 15
"""Folded weights beyond it leave too little room below what fp16 holds."""


def has_gains(node: Node) -> bool:
    """Whether a node is a layer norm over the last dimension alone with constant gains or offsets."""
    if node.op != "layer_norm":
        return False
    axes, rank = node.get("axes"), node.output.type.rank
    given = [value for name in ("gamma", "beta") if (value := node.get(name)) is not None]
    return bool(given) and all(value.constant and value.type.rank == 1 for value in given) and axes is not None \
        and [int(axis) % rank for axis in axes.array().ravel()] == [rank - 1]


def without_gains(norm: Node) -> Node:
    """The norm alone."""
    return replace(norm, operands={name: operand for name, operand in norm.operands.items()
                                   if name not in ("gamma", "beta")})


def taken_up(norm: Node, readers: Sequence[Node]) -> dict[int, Node] | None:
    """What reads a norm, by id, with its gains and offsets in their weights; None where one cannot take them."""
    found = {id(reader): _taken_up(norm, reader) for reader in readers}
    made = {key: node for key, node in found.items() if node is not None}
    return made if len(made) == len(found) else None


def _taken_up(norm: Node, node: Node) -> Node | None:
    weight, bias = node.get("weight"), node.get("bias")
    if node.op != "linear" or node["x"] is not norm.output or weight is None \
            or not all(value.constant for value in (weight, bias) if value is not None):
        return None
    matrix = weight.array().astype(np.float64)
    folded = _fits(matrix * _numbers(norm.get("gamma"), 1.0))
    total = _fits(matrix @ (np.zeros(matrix.shape[1]) + _numbers(norm.get("beta"), 0.0)) + _numbers(bias, 0.0))
    if folded is None or total is None:
        return None
    operands = {**node.operands, "weight": constant(f"{weight.name}_normed", folded, weight)}
    if bias is not None or norm.get("beta") is not None:
        operands["bias"] = constant(f"{weight.name}_normed_bias", total, weight if bias is None else bias)
    return replace(node, operands=operands)


def _numbers(value: Value | None, default: float) -> np.ndarray:
    return np.asarray(default) if value is None else value.array().astype(np.float64)


def _fits(array: np.ndarray) -> np.ndarray | None:
    return array if np.isfinite(array).all() and np.abs(array).max(initial=0.0) <= LARGEST else None
