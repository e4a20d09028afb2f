"""Nodes that compute nothing: whose results are numbers of what they read, elsewhere or in another form."""

from __future__ import annotations

from openane.graph import Node, Value
from openane.ops import all_ops
from openane.ops.spec import Movement


def numbers_from(node: Node, beside_constants: bool = False) -> Value | None:
    """The tensor whose numbers, and no others, a node's one result has elsewhere; None for other nodes. With
    `beside_constants` constants may be among them, such as a padding."""
    op = all_ops().get(node.op)
    if op is None or op.moves is None or len(node.outputs) != 1:
        return None
    if op.moves is not Movement.MIX:
        return node["x"]
    read = node.computed()
    return read[0] if beside_constants and len(read) == 1 else None


def keeps_numbers(node: Node) -> bool:
    """Whether a node's results are numbers of its operands as they are, of one or of several."""
    op = all_ops().get(node.op)
    return op is not None and (op.moves is not None or op.views(node) or op.casts)
