"""Normalisation, gains and offsets per output channel behind a convolution or product go into its weights and bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops.batch_norm import constants
from openane.passes.rewrite import constant, only_user, rebuilt

CONVOLUTIONS = ("conv", "conv_transpose")


@dataclass(frozen=True, eq=False, slots=True)
class Folded(Value):
    """A constant made by folding `users` into `before`, one after the other."""

    before: Node | None = None
    users: tuple[Node, ...] = ()


Affine = tuple[np.ndarray, np.ndarray]
"""Gain and offset per output channel, float64."""

OVERFLOW = 65520.0
"""The smallest number that fp16 rounds to infinity."""


def fold_affine(graph: Graph) -> Graph:
    """The graph with per-channel affine nodes folded into the conv, conv_transpose, linear or constant matmul before
    them."""
    outputs = {id(value) for value in graph.outputs}
    users = graph.users()
    gone: set[int] = set()
    nodes: list[Node] = []
    for node in graph.nodes:
        if id(node) in gone:
            continue
        folded, taken = node, list[Node]()
        while _has_weights(folded) and (user := only_user(users, outputs, folded.output)) is not None:
            affine = _affine(user, folded)
            together = None if affine is None else _with(folded, user, affine)
            if together is None:
                break
            gone.add(id(user))
            taken.append(user)
            folded = together
        nodes.append(_remembering(folded, node, tuple(taken)))
    return rebuilt(graph, nodes)


def refolded(node: Node, users: Sequence[Node]) -> Node | None:
    """The node with all of `users` folded into it; None where that cannot be."""
    folded: Node | None = node
    for user in users:
        affine = None if folded is None else _affine(user, folded)
        folded = None if folded is None or affine is None else _with(folded, user, affine)
    return folded


def takes_up(node: Node, user: Node) -> bool:
    """Whether `user` has the form of what is folded into `node`, whatever the numbers."""
    return _has_weights(node) and _affine(user, node) is not None


def _remembering(folded: Node, before: Node, users: tuple[Node, ...]) -> Node:
    """The folded node with constants that say what they were made of."""
    known = {id(value) for value in before.values()}
    made = {name: Folded(value.name, value.type, value.data, before, users) for name in ("weight", "bias")
            if users and (value := folded.get(name)) is not None and id(value) not in known}
    return replace(folded, operands={**folded.operands, **made}) if made else folded


def _has_weights(node: Node) -> bool:
    if node.op in (*CONVOLUTIONS, "linear"):
        weight, bias = node.get("weight"), node.get("bias")
        return weight is not None and weight.constant and (bias is None or bias.constant)
    if node.op != "matmul":
        return False
    y, flag = node["y"], node.get("transpose_x")
    return y.constant and y.type.rank == 2 and node["x"].type.rank > 1 and (flag is None or not flag.array().any())


def _affine(node: Node, before: Node) -> Affine | None:
    """What `node` does to each output channel of `before`, or None when it does something else."""
    result = before.output
    if len(node.outputs) != 1 or node.output.type != result.type:
        return None
    axis = 1 if before.op in CONVOLUTIONS else result.type.rank - 1
    channels = result.shape[axis]
    if node.op == "batch_norm":
        return constants(node) if axis == 1 else None
    if node.op not in ("add", "sub", "mul", "real_div"):
        return None
    x, y = node["x"], node["y"]
    vector = y if x is result else x
    numbers = _per_channel(vector, result.type.rank, axis, channels)
    if numbers is None:
        return None
    zeros, ones = np.zeros(channels), np.ones(channels)
    if node.op == "mul":
        return numbers, zeros
    if node.op == "real_div":
        return (1 / numbers, zeros) if x is result and numbers.all() else None
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


def _with(node: Node, user: Node, affine: Affine) -> Node | None:
    """The convolution or product with `affine` folded in, making what `user` made; None where fp16 does not hold what
    would become its weights and bias."""
    gain, offset = affine
    name = user.output.name
    if node.op == "matmul":
        flag = node.get("transpose_y")
        weight = node["y"].array() if flag is not None and flag.array().any() else node["y"].array().T
        node = Node("linear", {"x": node["x"], "weight": constant(f"{name}_weight", weight, node["y"])},
                    node.outputs, node.name, node.source)
    weight, bias = node["weight"].array(), node.get("bias")
    shift = (0 if bias is None else bias.array().astype(np.float64)) * gain + offset
    largest, scaled = _largest_scaled(node, weight, gain)
    if not (_largest(shift) < OVERFLOW and scaled < OVERFLOW and _resolved(largest, scaled)):
        return None
    operands = dict(node.operands)
    if (gain != 1).any():
        operands["weight"] = constant(f"{name}_weight", _scaled(node, weight, gain), node["weight"])
    if shift.any() or bias is not None:
        operands["bias"] = constant(f"{name}_bias", shift, node["weight"])
    return replace(node, operands=operands, outputs=user.outputs)


def _resolved(largest: float, scaled: float) -> bool:
    """Whether the folded weights keep the relative precision the weights had: fp16 rounds what it holds below its
    normal range by up to 2^-25, as it does the largest weight from 2^-14 on. All channels together, so that one scaled
    to next to nothing does not keep the others from folding."""
    return scaled == 0 or scaled >= float(np.finfo(np.float16).smallest_normal) or scaled >= largest


def _largest(numbers: np.ndarray) -> float:
    """The largest magnitude, NaN when one is NaN; 0 of none."""
    return float(np.maximum(numbers.max(), -numbers.min())) if numbers.size else 0.0


def _largest_scaled(node: Node, weight: np.ndarray, gain: np.ndarray) -> tuple[float, float]:
    """The largest magnitude of the weight before and after its output channels take their gains, NaN as in `_largest`.

    Rounding keeps the order of numbers, so that the largest product is the one of each channel's largest weight.
    """
    if not weight.size:
        return 0.0, 0.0
    seen, gains = _by_channel(node, weight, gain)
    axes = tuple(axis for axis in range(seen.ndim) if gains.shape[axis] == 1)
    if weight.dtype == np.float16:  # the bits of magnitudes are in the order of the numbers, NaN last
        peaks = np.abs(seen).view(np.uint16).max(axis=axes, keepdims=True).view(np.float16)
    else:
        peaks = np.abs(seen).max(axis=axes, keepdims=True)
    peaks = peaks.astype(np.float64)
    return float(peaks.max()), float((peaks * np.abs(gains)).max())


def _scaled(node: Node, weight: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """The weight with every output channel times its gain, computed in float64 and rounded once."""
    seen, gains = _by_channel(node, weight, gain)
    result = np.empty_like(weight)
    with np.errstate(over="ignore"):
        np.multiply(seen, gains, out=_by_channel(node, result, gain)[0], dtype=np.float64, casting="unsafe")
    return result


def _by_channel(node: Node, weight: np.ndarray, gain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A view of the weight, and the gains as they are broadcast to it: output channels come first, or, in a
    conv_transpose, second and counted within groups."""
    spatial = (1,) * (weight.ndim - 2)
    if node.op != "conv_transpose":
        return weight, gain.reshape(-1, 1, *spatial)
    each = weight.shape[1]
    return weight.reshape(len(gain) // each, -1, *weight.shape[1:]), gain.reshape(-1, 1, each, *spatial)
