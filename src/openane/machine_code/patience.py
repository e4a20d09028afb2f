"""When a process brings the loop that rounds numbers: once there are so many that it pays. Until then nothing else of
this room is imported."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import numpy as np

SOON = 1 << 26
"""Numbers that numpy takes longer for than it takes to bring a loop whose code was kept."""
LATE = 1 << 30
"""Numbers from which on the loop is compiled where its code was not kept: that takes a second, as they did."""
NEVER = 1 << 62
Rounder = Callable[[np.ndarray, np.ndarray], int]
"""See `machine_code.rounding`: float32 numbers [n], and where their fp16 words go, uint16 [n]."""


class Patience:
    """Counts the numbers that are rounded."""

    def __init__(self) -> None:
        self._rounded, self._enough = 0, SOON
        self._loop: Rounder | None = None

    def rounder(self, count: int) -> Rounder | None:
        """The loop, for so many numbers more; None where numpy is to round them."""
        if self._loop is None:
            self._rounded += count
            if self._rounded >= self._enough:
                self._bring(self._rounded >= LATE)
        return self._loop

    def _bring(self, late: bool) -> None:
        from openane.machine_code import machine
        from openane.machine_code.rounding import ROUND

        self._enough = NEVER if late else LATE
        with suppress(ImportError):  # there is no numba
            found = machine.functions([ROUND], "rounding") if late else machine.kept([ROUND])
            self._loop = None if found is None else found[0]


@cache
def patience() -> Patience:
    """That of this process."""
    return Patience()
