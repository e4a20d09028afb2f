"""Which tensors of an ONNX graph are positions in long tables, looked up while the model runs.

They are whole numbers that may lie far beyond what fp16 holds exactly, the number of a token for example. Operators
that compute them become operations on integers, which the host computes; everywhere else integers are the fp16 numbers
the engine has.
"""

from __future__ import annotations

from openane.importers.onnx.nodes import Proto

COUNTED = 2048
"""Up to here fp16 holds every whole number: positions in shorter tables may be computed on the engine."""
_LOOKUPS = frozenset(["Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND"])
_STARTS = _LOOKUPS | {"Mod"}
_COMPUTED = frozenset([
    "Abs", "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Clip", "Concat", "CumSum",
    "Div", "Expand", "Flatten", "Identity", "Max", "Min", "Mod", "Mul", "Neg", "Reshape", "Slice", "Split", "Squeeze",
    "Sub", "Sum", "Tile", "Transpose", "Unsqueeze", "Where"])
"""Operators whose result is a position where what they compute with is."""


def positions(graph: Proto) -> frozenset[str]:
    """Names of positions, and of what they are computed from by integers alone; and of products whose remainder is
    taken: nobody would divide what stays small."""
    if _STARTS.isdisjoint(node.op_type for node in graph.node):
        return frozenset()
    short = {tensor.name for tensor in graph.initializer if max(tensor.dims, default=0) <= COUNTED}
    found = {node.input[1] for node in graph.node
             if node.op_type in _LOOKUPS and len(node.input) > 1 and node.input[0] not in short} | _hashed(graph)
    for node in reversed(graph.node):
        if node.op_type in _COMPUTED and not found.isdisjoint(node.output):
            found.update(node.input)
    return frozenset(found)


def _hashed(graph: Proto) -> set[str]:
    products = {node.output[0] for node in graph.node if node.op_type == "Mul" and node.output}
    return {node.output[0] for node in graph.node
            if node.op_type == "Mod" and node.output and node.input and node.input[0] in products}
