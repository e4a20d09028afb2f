"""Follows the elements of a kernel whose taps are laid out anew: it is lowered a second time with the numbers 1, 2, 3,
... as its elements, which then show where each element went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.chips import Chip
from openane.compiler.lower.builder import Builder
from openane.compiler.lower.provenance import Traced
from openane.compiler.lower.situations import Situation
from openane.compiler.weights.pack import PackedCoefficients
from openane.errors import AneError
from openane.graph import Graph, Node


def followed(node: Node, pieces: Sequence[Traced], chip: Chip) -> Sequence[Traced]:
    """The pieces, those that are no views as elements picked one by one; none where these are not found."""
    weight = node["weight"].array()
    numbers = _numbered(node, chip)
    if len(numbers) != len(pieces):
        return []
    flat, found = np.append(np.zeros(1, weight.dtype), weight), list[Traced]()
    for each, order in zip(pieces, numbers, strict=True):
        if each.weights is not None and (order.shape != each.weights.shape or (flat[order] != each.weights).any()):
            return []
        found.append(each if each.weights is None else each.picked(order))
    return found


def _numbered(node: Node, chip: Chip) -> list[np.ndarray]:
    """What is packed when the node is lowered alone with its weight's elements numbered from 1 on."""
    weight = node["weight"]
    numbers = np.arange(1, weight.type.elements + 1, dtype=np.float32).reshape(weight.shape)  # PICKED of them at most
    alone = replace(node, operands={**node.operands, "weight": replace(weight, data=numbers)})
    try:
        with np.errstate(over="ignore"):
            numbering = _Numbering(Graph((node["x"],), (alone,), node.outputs), chip)
            numbering.lower(alone)
    except AneError:
        return []
    made = () if id(alone) in numbering.trace.lost else numbering.trace.pieces.get(id(alone), ())
    orders = (each.piece.weights.of(numbers.reshape(-1)) if each.weights is None else each.weights for each in made)
    return [order.astype(np.int32) for order in orders]


class _Numbering(Builder):
    """Lowers a node to see what is packed, which is stored nowhere."""

    def situation(self, node: Node) -> Situation | None:
        """What is packed is asked for: no node is lowered as another one was."""
        return None

    def store(self, packed: PackedCoefficients, *, weights: bool, table: bool) -> int:
        """See recipes.context.RecipeContext."""
        if weights:
            self.trace.packed(self.node, packed, 0, table)
        return 0
