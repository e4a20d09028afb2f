"""How a part of an operation's result follows from parts of its operands: what computing a graph strip by strip needs.

An operation is carried along a dimension of its result when every strip of that comes from the same strip of each
operand that has the dimension, and from the whole of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from openane.graph import Node, TensorType, Value
from openane.ops import get_op

Carried = Mapping[str, int | None]
"""By the name of each operand that is a tensor: the dimension that goes along, None where the whole is read."""


def carried(node: Node, axis: int) -> Carried | None:
    """Along which dimension each operand goes when the only result goes along `axis`; None where no strip can be
    computed by itself."""
    if len(node.outputs) != 1:
        return None
    op = get_op(node.op)
    if op.unary is not None or op.arithmetic is not None or node.op in ("identity", "cast", "select"):
        return _elementwise(node, axis)
    rule = {"conv": _conv, "linear": _linear, "matmul": _matmul, "softmax": _softmax, "layer_norm": _layer_norm,
            "batch_norm": _batch_norm, "transpose": _transpose, "reshape": _reshape, "expand_dims": _reshape,
            "squeeze": _reshape}.get(node.op)
    return None if rule is None else rule(node, axis)


def _tensors(node: Node) -> dict[str, Value]:
    return {name: value for name, value in node.operands.items() if isinstance(value, Value)}


def _elementwise(node: Node, axis: int) -> Carried:
    rank, extent = node.output.type.rank, node.output.shape[axis]
    found: dict[str, int | None] = {}
    for name, value in _tensors(node).items():
        own = axis - (rank - value.type.rank)
        found[name] = own if own >= 0 and value.shape[own] == extent > 1 else None
    return found


def _only_x(node: Node, axis: int | None) -> Carried:
    return {name: axis if name == "x" else None for name in _tensors(node)}


def _conv(node: Node, axis: int) -> Carried | None:
    """Along channels, of which each has weights of its own: the same of x where a channel reads no other, else all."""
    weight, x = node["weight"], node["x"]
    groups = 1 if node.get("groups") is None else int(node["groups"].array())
    depthwise = groups == x.shape[1] == node.output.shape[1]
    if axis != 1 or not (depthwise or groups == 1) or not weight.constant:
        return None
    found = {name: 0 if name in ("weight", "bias") else None for name in _tensors(node)}
    return {**found, "x": 1 if depthwise else None}


def _linear(node: Node, axis: int) -> Carried | None:
    return None if axis == node.output.type.rank - 1 else _only_x(node, axis)


def _matmul(node: Node, axis: int) -> Carried | None:
    x, y, rank = node["x"], node["y"], node.output.type.rank
    if min(x.type.rank, y.type.rank) < 2:
        return None
    flags = {name: bool(node[name].array()) for name in ("transpose_x", "transpose_y") if name in node.operands}
    found: dict[str, int | None] = dict.fromkeys(_tensors(node))
    if axis == rank - 2:
        found["x"] = x.type.rank - (1 if flags.get("transpose_x") else 2)
    elif axis == rank - 1:
        found["y"] = y.type.rank - (2 if flags.get("transpose_y") else 1)
    else:
        for name, value in (("x", x), ("y", y)):
            own = axis - (rank - value.type.rank)
            found[name] = own if own >= 0 and value.shape[own] > 1 else None
    return found


def _softmax(node: Node, axis: int) -> Carried | None:
    return None if int(node["axis"].array()) % node.output.type.rank == axis else _only_x(node, axis)


def _layer_norm(node: Node, axis: int) -> Carried | None:
    rank = node.output.type.rank
    axes = node.get("axes")
    over = range(rank) if axes is None else [int(each) % rank for each in axes.array().ravel()]
    return None if axis in over else _only_x(node, axis)


def _batch_norm(node: Node, axis: int) -> Carried | None:
    return None if axis == 1 else _only_x(node, axis)


def _transpose(node: Node, axis: int) -> Carried:
    return _only_x(node, int(node["perm"].array()[axis]) % node.output.type.rank)


def _reshape(node: Node, axis: int) -> Carried | None:
    """The dimension of x of as many elements, with as many in those before it."""
    before, extent = prod(node.output.shape[:axis]), node.output.shape[axis]
    shape = node["x"].shape
    own = next((d for d in range(len(shape)) if shape[d] == extent and prod(shape[:d]) == before), None)
    return None if own is None else _only_x(node, own)


def followed(node: Node, operand: str, axis: int) -> int | None:
    """The dimension of the result that goes along when an operand goes along `axis`; None where there is none."""
    for own in range(node.output.type.rank if len(node.outputs) == 1 else 0):
        found = carried(node, own)
        if found is not None and found.get(operand) == axis:
            return own
    return None


def narrowed(value: Value, name: str, axis: int, rows: tuple[int, int]) -> Value:
    """A value of the type that a tensor's rows from rows[0] up to rows[1] along `axis` have."""
    shape = tuple(rows[1] - rows[0] if d == axis else extent for d, extent in enumerate(value.shape))
    return Value(name, TensorType(value.dtype, shape))


def taken(value: Value, result: Value, axis: int, rows: tuple[int, int]) -> Node:
    """The node that makes `result` of those rows."""
    begin, end = [0] * value.type.rank, list(value.shape)
    begin[axis], end[axis] = rows
    return Node("slice_by_index", {"x": value, "begin": _numbers(begin), "end": _numbers(end)}, (result,), result.name)


def joined(parts: Sequence[Value], result: Value, axis: int) -> Node:
    """The node that makes `result` of its strips along `axis`."""
    return Node("concat", {"values": tuple(parts), "axis": _numbers(axis)}, (result,), result.name)


def strip(node: Node, operands: Mapping[str, Value], result: Value) -> Node:
    """The node that makes a strip of the node's result of strips of its operands."""
    changed = {**node.operands, **operands}
    if node.op == "conv" and "x" in operands:
        changed["groups"] = _numbers(result.shape[1])
    if node.op == "reshape":
        changed["shape"] = _numbers(list(result.shape))
    return replace(node, operands=changed, outputs=(result,))


def _numbers(given: int | list[int]) -> Value:
    array = np.asarray(given, np.int32)
    return Value("", TensorType("int32", array.shape), array)
