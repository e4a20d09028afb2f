"""Normalisation, gains and offsets per output channel behind a convolution or product go into its weights and bias."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops.batch_norm import constants
from openane.passes.rewrite import constant, only_user, rebuilt

Affine = tuple[np.ndarray, np.ndarray]
"""Gain and offset per output channel, float64."""


def fold_affine(graph: Graph) -> Graph:
    """The graph with per-channel affine nodes folded into the conv, linear or constant matmul before them."""
    outputs = {id(value) for value in graph.outputs}
    users = graph.users()
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        folded = node
        while _has_weights(folded) and (user := only_user(users, outputs, folded.output)) is not None:
            affine = _affine(user, folded)
            if affine is None:
                break
            gone.add(id(user))
            folded = _with(folded, user, affine)
        nodes.append(folded)
    return rebuilt(graph, nodes)


def _has_weights(node: Node) -> bool:
    if node.op in ("conv", "linear"):
        weight, bias = node.get("weight"), node.get("bias")
        return weight is not None and weight.constant and (bias is None or bias.constant)
    if node.op != "matmul":
        return False
    y, flag = node["y"], node.get("transpose_x")
    return y.constant and y.type.rank == 2 and node["x"].type.rank > 1 and (flag is None or not flag.array().any())


def _affine(node: Node, before: Node) -> Affine | None:
    """What `node` does to each output channel of `before`, or None when it does something else."""
    result = before.output
    if node.output.type != result.type:
        return None
    axis = 1 if before.op == "conv" else result.type.rank - 1
    channels = result.shape[axis]
    if node.op == "batch_norm":
        return constants(node) if axis == 1 else None
    if node.op not in ("add", "sub", "mul"):
        return None
    x, y = node["x"], node["y"]
    vector = y if x is result else x
    numbers = _per_channel(vector, result.type.rank, axis, channels)
    if numbers is None:
        return None
    zeros, ones = np.zeros(channels), np.ones(channels)
    if node.op == "mul":
        return numbers, zeros
    if node.op == "add":
        return ones, numbers
    return (ones, -numbers) if x is result else (-ones, numbers)


def _per_channel(value: Value, rank: int, axis: int, channels: int) -> np.ndarray | None:
    if not value.constant or value.type.rank > rank:
        return None
    shape = (1,) * (rank - value.type.rank) + value.shape
    if any(extent != 1 for i, extent in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(value.array().reshape(-1).astype(np.float64), (channels,))


def _with(node: Node, user: Node, affine: Affine) -> Node:
    """The convolution or product with `affine` folded in, making what `user` made."""
    gain, offset = affine
    name = user.output.name
    if node.op == "matmul":
        flag = node.get("transpose_y")
        weight = node["y"].array() if flag is not None and flag.array().any() else node["y"].array().T
        node = Node("linear", {"x": node["x"], "weight": constant(f"{name}_weight", weight, node["y"])},
                    node.outputs, node.name, node.source)
    weight, bias = node["weight"].array().astype(np.float64), node.get("bias")
    old = np.zeros(len(gain)) if bias is None else bias.array().astype(np.float64)
    operands = {**node.operands, "bias": constant(f"{name}_bias", old * gain + offset, node["weight"])}
    if (gain != 1).any():
        scaled = weight * gain.reshape(-1, *(1,) * (weight.ndim - 1))
        operands["weight"] = constant(f"{name}_weight", scaled, node["weight"])
    if not (operands["bias"].array().any() or bias is not None):  # type: ignore[union-attr]
        del operands["bias"]
    return replace(node, operands=operands, outputs=user.outputs)
