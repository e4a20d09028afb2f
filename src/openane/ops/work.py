"""How much arithmetic operations take, roughly: what nobody should compute by the way is recognised before."""

from __future__ import annotations

from openane.graph import Node, Value
from openane.ops import all_ops


def node_work(node: Node) -> float:
    """Multiplications and additions of a node, roughly: results times the numbers that go into each of them."""
    results = sum(value.type.elements for value in node.outputs)
    weights, op = node.get("weight") or node.get("y"), all_ops().get(node.op)  # not known: reads and writes of states
    inner = 1
    if isinstance(weights, Value) and op is not None and op.sums_products and weights.shape:
        inner = max(1, weights.type.elements // max(weights.shape[0], 1))
    return float(results) * inner
