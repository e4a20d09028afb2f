"""Memory of large results that nothing reads any more, for results that are yet to be computed: a system takes as long
to find memory for the scores of attention as it takes to compute them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from openane.graph import Graph, Node
from openane.ops import get_op

LARGE = 1 << 18
"""Elements of a result from which on this is worth while."""


class Spent:
    """`last` has the position of the last node that reads each value, by id, outputs left out; arrays of results are
    found by id as well. One array is kept at a time."""

    def __init__(self, graph: Graph, last: Mapping[int, int]) -> None:
        self._last = last
        self._own = {id(value) for node in graph.nodes if get_op(node.op).over for value in node.outputs
                     if value.type.elements >= LARGE}
        self._kept: np.ndarray | None = None

    def over(self, node: Node, position: int, results: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """What a node may write its result to: the array of x where that is read for the last time, or one that was
        kept; None where there is none of its shape."""
        if id(node.outputs[0]) not in self._own:
            return None
        x = node["x"]
        if self._last.get(id(x)) == position and x.type == node.output.type and get_op(node.op).product is None and \
                (found := self._alone(id(x), results)) is not None:
            return found
        kept = self._kept
        if kept is None or kept.shape != node.output.shape:
            return None
        self._kept = None
        return kept

    def keep(self, done: Collection[int], results: Mapping[int, np.ndarray]) -> None:
        """Keeps one of the arrays that are about to be given up."""
        for number in done:
            found = self._alone(number, results)
            if found is not None:
                self._kept = found

    def _alone(self, number: int, results: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """The array of a result that an operation took for it alone; None where another is seen in it."""
        found = results.get(number) if number in self._own else None
        if found is None or found.base is not None or found.dtype != np.float32 or not found.flags.c_contiguous:
            return None
        return None if any(other is found or other.base is found for key, other in results.items()
                           if key != number) else found
