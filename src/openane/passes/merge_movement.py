"""Data movement behind data movement: two transposes or two reshapes are one, a slice of a concat that takes from one
of its parts is a slice of that part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, TensorType, Value
from openane.ops.concat import PARAMETERS as CONCAT
from openane.ops.operands import Arguments
from openane.ops.slice import KEPT
from openane.ops.transpose import permutation
from openane.passes.rewrite import rebuilt

RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten2d", "reshape_like")

Producers = Mapping[int, Node]


def merge_movement(graph: Graph) -> Graph:
    """The graph with each movement reading what the one before it read, where one does for both. The first stays for
    whoever else reads it."""
    made: dict[int, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        node = _merged(node, made)
        nodes.append(node)
        made.update((id(value), node) for value in node.outputs)
    return rebuilt(graph, nodes)


def _merged(node: Node, made: Producers) -> Node:
    x = node.get("x")
    before = None if x is None else made.get(id(x))
    if before is None:
        return node
    if node.op == before.op == "transpose":
        first, second = permutation(before.operands), permutation(node.operands)
        return _with(node, "transpose", before["x"], perm=[first[axis] for axis in second])
    if node.op in RESHAPES and before.op in RESHAPES:
        return _with(node, "reshape", before["x"], shape=node.output.shape)
    if node.op in KEPT and before.op == "concat":
        return _slice_of_part(node, before)
    return node


def _slice_of_part(node: Node, before: Node) -> Node:
    arguments = Arguments("concat", CONCAT, before.operands)
    values = arguments.tensors("values")
    axis = arguments.axis("axis", values[0].type.rank)
    kept, dropped = KEPT[node.op](node.operands)
    if arguments.flag("interleave") or any(r.step < 0 for r in kept):
        return node
    start = 0
    for value in values:
        stop = start + value.shape[axis]
        if start <= kept[axis].start and kept[axis][-1] < stop:
            own = (*kept[:axis], range(kept[axis].start - start, kept[axis].stop - start, kept[axis].step),
                   *kept[axis + 1:])
            bounds = {"begin": [r.start for r in own], "end": [r[-1] + 1 for r in own], "stride": [r.step for r in own]}
            return _with(node, "slice_by_index", value, **bounds, squeeze_mask=list(dropped))
        start = stop
    return node


def _with(node: Node, op: str, x: Value, **settings: object) -> Node:
    """The node as another operation on x, with constant operands."""
    operands = {"x": x}
    for name, data in settings.items():
        array = np.asarray(data)
        dtype = "bool" if array.dtype == np.bool_ else "int32"
        array = array.astype(np.bool_ if dtype == "bool" else np.int32)
        operands[name] = Value(f"{node.output.name}_{name}", TensorType(dtype, array.shape), array)
    return replace(node, op=op, operands=operands)
