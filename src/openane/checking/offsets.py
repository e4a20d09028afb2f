"""Constants that operations add, beside which the other digits of numbers are lost."""

from __future__ import annotations

import numpy as np

from openane.checking.beside import Link, Seen
from openane.checking.names import Names
from openane.checking.numbers import relative, usual
from openane.checking.operands import keeps_scale, offset
from openane.graph import Node
from openane.ops.moved import keeps_numbers

HIDING = 0.3
"""Of an error what an offset must hide for its operation to be named."""


class Offsets:
    """Of results, by id, the operation that added a constant, how large that is, and what the other digits then err."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[int, tuple[Node, float, float]] = {}

    def remember(self, seen: Seen) -> None:
        """Keeps what a result says."""
        bias = None if seen.hosted or seen.counted else offset(seen.node, seen.near)
        held = seen.near if seen.made is None else seen.made
        if bias is None or held.dtype.kind != "f" or not np.isfinite(held).all():
            return
        if seen.made is None:
            with np.errstate(over="ignore"):
                held = held.astype(np.float16).astype(np.float64)
        self._known[id(seen.value)] = (seen.node, usual(bias), relative(held, seen.near, bias))

    def hiding(self, link: Link, inherited: float) -> tuple[Node, float, float] | None:
        """Of what a link reads the operation that added a constant beside which its own digits went."""
        for value in link.node.values():
            node = self._names.producer(value)
            while node is not None and id(node.outputs[0]) not in self._known and (
                    keeps_numbers(node) or keeps_scale(node)):
                node = next((self._names.producer(each) for each in node.values() if not each.constant), None)
            known = None if node is None else self._known.get(id(node.outputs[0]))
            if known is not None and known[2] >= HIDING * inherited:
                return known
        return None
