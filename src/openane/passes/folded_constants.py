"""Constants that others were folded into, and what was."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from openane.graph import Node, RoundedConstant, Value
from openane.ops import get_op
from openane.ops.spec import Product
from openane.ops.weights import numbers
from openane.record_classes import dataclass


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ScaledConstant(RoundedConstant):
    """The weight of a `product`, whose output channels were multiplied by `gains`, float64 [channels], one after the
    other: of `weight`."""

    weight: RoundedConstant
    gains: tuple[np.ndarray, ...]
    product: Product


@dataclass(frozen=True, eq=False, slots=True)
class FoldedConstant(Value):
    """A constant made by folding `users` into `before`, one after the other; `scaled`: a weight that has more digits.
    fp16 holds every number of it."""

    before: Node | None = None
    users: tuple[Node, ...] = ()
    scaled: ScaledConstant | None = None


def remembering(folded: Node, before: Node, users: tuple[Node, ...], names: Sequence[str]) -> Node:
    """The folded node with constants of these names that say what they were made of."""
    if not users:
        return folded
    known = set(map(id, before.values()))
    made = {name: FoldedConstant(value.name, value.type, value.data, before, users,
                                 value if isinstance(value, ScaledConstant) else None) for name in names
            if (value := folded.get(name)) is not None and id(value) not in known}
    return Node(folded.op, {**folded.operands, **made}, folded.outputs, folded.name, folded.source) if made else folded


def unfolded(node: Node) -> tuple[Node, np.ndarray, np.ndarray] | None:
    """A node as it was before gains were folded into its weight, all digits of which lie in memory, and without a bias;
    and the gain and the offset, float32, by which its result becomes that of the node. None of any other node."""
    weight, bias, product = node.get("weight"), node.get("bias"), get_op(node.op).product
    scaled = weight.scaled if isinstance(weight, FoldedConstant) else None
    if weight is None or scaled is None or scaled.product is not product or callable(scaled.weight.stated):
        return None
    shape = [1] * node.output.type.rank
    shape[product.axis] = -1
    gain = reduce(np.multiply, scaled.gains).astype(np.float32).reshape(shape)
    offset = np.zeros(1, np.float32) if bias is None else numbers(bias).astype(np.float32)
    operands = {name: operand for name, operand in node.operands.items() if name != "bias"}
    operands["weight"] = Value(weight.name, weight.type, scaled.weight.digits())
    return Node(node.op, operands, node.outputs, node.name, node.source), gain, offset.reshape(shape)
