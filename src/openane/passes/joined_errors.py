"""What the errors of a part of a joined tensor count beside: the sums with constant weights that all parts are read by.

A part that is far smaller than those it is joined with needs fewer digits than it would by itself, if the weights that
read it are no larger than theirs. Asked only where digits cost a task, since it takes a look at the weights.
"""

from __future__ import annotations

import math

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops import arguments, get_op
from openane.ops.exponents import Relation, factors
from openane.ops.half_products import CHUNK
from openane.ops.weights import numbers
from openane.passes.exponent_groups import Said, variables
from openane.passes.ranges import NOTHING, Ranges


class JoinedErrors:
    """`beside` answers; what is remembered is, by id of the value and axis, how much of what is computed of it an error
    in each channel is."""

    def __init__(self, graph: Graph, said: Said, ranges: Ranges) -> None:
        self._said, self._ranges = said, ranges
        self._users, self._outputs = graph.users(), set(map(id, graph.outputs))
        self._known: dict[tuple[int, int], np.ndarray | None] = {}

    def beside(self, value: Value, axis: int) -> float:
        """The root mean square beside which errors of a value count, whose channels are counted along an axis: its own
        at the least."""
        usual = self._usual(value)
        shares = self._shares(value, axis % value.type.rank)
        total = 0.0 if shares is None else float(shares.sum())
        return max(usual, 1 / math.sqrt(total)) if total else usual

    def _shares(self, value: Value, axis: int) -> np.ndarray | None:
        """The square of the error, relative to the result, that an error of 1 in every number of a channel makes in
        what reads it, the largest of all readers: float64 [channels]; None where that is not known."""
        if (id(value), axis) not in self._known:
            readers = self._users.get(id(value), ())
            seen = [None] if id(value) in self._outputs or not readers \
                else [self._seen_by(node, value, axis) for node in readers]
            known = [each for each in seen if each is not None]
            self._known[id(value), axis] = np.max(known, axis=0) if len(known) == len(seen) else None
        return self._known[id(value), axis]

    def _seen_by(self, node: Node, value: Value, axis: int) -> np.ndarray | None:
        about = self._said.exponents[id(node)]
        if about.relation is Relation.LINEAR:
            return self._weighted(node, value, axis)
        if about.relation is not Relation.TIED or len(node.outputs) > 1 or node.get("axes") is not None:
            return None
        op, read = get_op(node.op), variables(node, about.operands)
        if op.unary is not None or (op.homogeneous is not None and read == [value] and _keeps(node, value, axis)):
            return self._shares(node.output, axis)
        return self._part(node, value, axis) if "values" in about.operands else None

    def _part(self, node: Node, value: Value, axis: int) -> np.ndarray | None:
        """Of what is joined along the axis the part that the value is."""
        parts = arguments(node).tensors("values")
        along, interleave = node.get("axis"), node.get("interleave")
        if along is None or int(along.array()) % value.type.rank != axis or sum(each is value for each in parts) != 1 \
                or (interleave is not None and interleave.array().any()):
            return None
        shares = self._shares(node.output, axis)
        start = sum(each.shape[axis] for each in parts[:next(i for i, each in enumerate(parts) if each is value)])
        return None if shares is None else shares[start:start + value.shape[axis]]

    def _weighted(self, node: Node, value: Value, axis: int) -> np.ndarray | None:
        """Of sums with constant weights, which have their own channels first and those of the operand second: no
        groups, and nothing transposed."""
        product, usual = get_op(node.op).product, self._usual(node.output)
        if product is None or not product.kept or product.axis % node.output.type.rank != axis:
            return None
        (x, weight), = factors(node, self._said.exponents[id(node)])
        if not usual or x is not value or weight.type.rank < 2 or weight.shape[1] != x.shape[axis]:
            return None
        array, total = numbers(weight), np.zeros(weight.shape[1])
        others = tuple(i for i in range(array.ndim) if i != 1)
        rows = max(1, CHUNK * len(array) // array.size)
        for start in range(0, len(array), rows):
            total += np.square(array[start:start + rows] / np.float64(usual)).sum(others)
        return total / len(array)

    def _usual(self, value: Value) -> float:
        return self._ranges.get(id(value), NOTHING).usual


def _keeps(node: Node, value: Value, axis: int) -> bool:
    made = node.output.type
    return made.rank == value.type.rank and made.shape[axis] == value.shape[axis]
