"""When a process brings the loops that round numbers, lay out weights and take them out again: once there are so many
that it pays. Until then nothing else of this room is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

SOON = 1 << 25
"""Numbers that numpy takes as long for as it takes to bring loops whose code was kept, some 30 ms."""
LATE = 1 << 31
"""Numbers from which on loops are compiled where their code was not kept: that takes two to three seconds, and numpy
took two for these."""
NEVER = 1 << 62
UNPACKED, UNSKIPPED = 4, 12
"""As many numbers numpy rounds or lays out while it takes one out of a dense stream, and out of a zero-skipping one."""
WEIGHTS = "rounding and laying out weights"
Rounder = Callable[[np.ndarray, np.ndarray], int]
"""See `machine_code.rounding`: float32 numbers [n], and where their fp16 words go, uint16 [n]."""
Layer = Callable[..., None]
"""See `machine_code.laying`."""
Widener = Callable[[np.ndarray, np.ndarray], None]
"""See `machine_code.widening`: fp16 words of finite numbers, uint16 [n], and where they go, float32 [n]."""

Unpacker = Callable[..., int]
Unskipper = Callable[..., tuple[int, int]]
"""See `machine_code.unpacking`."""


class Patience:
    """Counts the numbers that are rounded, laid out, made float32 and taken out."""

    def __init__(self) -> None:
        self._seen, self._enough = 0, SOON
        self._loops: Sequence[Callable[..., Any]] | None = None

    def rounder(self, count: int) -> Rounder | None:
        """The loop, for so many numbers more; None where numpy is to round them."""
        loops = self._brought(count)
        return None if loops is None else loops[0]

    def layer(self, count: int) -> Layer | None:
        """The loop, for so many numbers more; None where numpy is to lay them out."""
        loops = self._brought(count)
        return None if loops is None else loops[1]

    def widener(self, count: int) -> Widener | None:
        """The loop, for so many numbers more; None where numpy is to make float32 of them."""
        loops = self._brought(count)
        return None if loops is None else loops[2]

    def unpacker(self, count: int) -> Unpacker | None:
        """The loop, for so many numbers more of dense streams; None where numpy is to take them out."""
        loops = self._brought(UNPACKED * count)
        return None if loops is None else loops[3]

    def unskipper(self, count: int) -> Unskipper | None:
        """The loop, for so many numbers more of zero-skipping streams; None where numpy is to take them out."""
        loops = self._brought(UNSKIPPED * count)
        return None if loops is None else loops[4]

    def _brought(self, count: int) -> Sequence[Callable[..., Any]] | None:
        if self._loops is None:
            self._seen += count
            if self._seen >= self._enough:
                self._bring(self._seen >= LATE)
        return self._loops

    def _bring(self, late: bool) -> None:
        from openane.machine_code import machine
        from openane.machine_code.laying import LOOPS

        self._enough = NEVER if late else LATE
        with suppress(ImportError):  # there is no numba
            self._loops = machine.functions(LOOPS, WEIGHTS) if late else machine.kept(LOOPS)


@cache
def patience() -> Patience:
    """That of this process."""
    return Patience()
