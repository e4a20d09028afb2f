"""Which tensors of an ONNX graph are positions in long tables, looked up while the model runs.

They are whole numbers that may lie far beyond what fp16 holds exactly, the number of a token for example. Operators
that compute them become operations on integers, which the host computes; everywhere else integers are the fp16 numbers
the engine has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openane.importers.onnx.nodes import Proto, StatedNode

COUNTED = 2048
"""Up to here fp16 holds every whole number: positions in shorter tables may be computed on the engine."""
_LOOKUPS = frozenset(["Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"])
_STARTS = _LOOKUPS | {"Mod"}
_COMPUTED = frozenset([
    "Abs", "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Clip", "Concat", "CumSum",
    "Div", "Expand", "Flatten", "Identity", "Max", "Min", "Mod", "Mul", "Neg", "Reshape", "Slice", "Split", "Squeeze",
    "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where"])
"""Operators whose result is a position where what they compute with is."""


def positions(nodes: Sequence[StatedNode], constants: Iterable[Proto]) -> frozenset[str]:
    """Of the nodes and initialisers of a graph, names of positions, and of what they are computed from by integers
    alone; and of products whose remainder is taken: nobody would divide what stays small."""
    if _STARTS.isdisjoint([node.kind for node in nodes]):
        return frozenset()
    short = {tensor.name for tensor in constants if max(tensor.dims[:], default=0) <= COUNTED}
    found = {node.inputs[1] for node in nodes
             if node.kind in _LOOKUPS and len(node.inputs) > 1 and node.inputs[0] not in short} | _hashed(nodes)
    for node in reversed(nodes if found else ()):
        if node.kind in _COMPUTED and not found.isdisjoint(node.outputs):
            found.update(node.inputs)
    return frozenset(found)


def _hashed(nodes: Sequence[StatedNode]) -> set[str]:
    products = {node.outputs[0] for node in nodes if node.kind == "Mul" and node.outputs}
    return {node.outputs[0] for node in nodes
            if node.kind == "Mod" and node.outputs and node.inputs and node.inputs[0] in products}
