"""How far the errors of faults reach: what a softmax of tiny scores takes from them, no output shows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openane.checking.beside import Seen
from openane.checking.causes import NumericFault
from openane.checking.numbers import relative
from openane.checking.operands import offset
from openane.graph import Value

SHOWN = 2.0 ** -13
"""The relative error that must be left all the way to an output: rounding to fp16 makes as much."""


class Followed:
    """Of each fault the least error on the way to a result, by id of the result, on the way where most is left: what a
    result inherits is that of all that it reads, so that this is no less than what is left of the fault's own."""

    def __init__(self) -> None:
        self._left: dict[int, dict[int, float]] = {}

    def begin(self, value: Value, fault: NumericFault) -> None:
        """A fault that was found in a result."""
        self._left[id(fault)] = {id(value): fault.severity}

    def follow(self, seen: Seen) -> None:
        """What is left in the next result of what it reads; of the rest of it where a constant is added."""
        bias = offset(seen.node, seen.near) if self._left and seen.near.dtype.kind == "f" else None
        error = seen.inherited if bias is None or seen.counted else relative(seen.near, seen.wide, bias)
        for left in self._left.values():
            before = max((left.get(id(value), 0.0) for value in seen.node.values()), default=0.0)
            if before:
                left[id(seen.value)] = min(before, error) if np.isfinite(error) else before

    def reaches(self, fault: NumericFault, outputs: Sequence[Value]) -> bool:
        """Whether one of the outputs shows a fault; one with infinities does anyway, and so do those of inputs."""
        left = self._left.get(id(fault))
        return left is None or bool(fault.infinite) or any(left.get(id(value), 0.0) >= SHOWN for value in outputs)
