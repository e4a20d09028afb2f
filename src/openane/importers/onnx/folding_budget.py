"""How much constant folding may make of a model: a few bytes of a file can ask for arrays of any size.

What is made counts when it is asked for, before memory is taken, and counts for good: the total bounds memory and work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openane.errors import UnsupportedError

LEAST = 1 << 30
"""Bytes that any model may make: models published without weights make up to 600 million bytes of them."""
TIMES = 32
"""How often the bytes of its own constants a model may make: casts, transpositions and scales of weights follow each
other."""


@dataclass(slots=True)
class FoldingBudget:
    """Bytes of constants the file holds, as far as they were read, and bytes that were computed from them."""

    given: int = 0
    made: int = 0

    def read(self, array: np.ndarray) -> None:
        """Counts an array that the file holds."""
        self.given += array.nbytes

    def take(self, label: str, size: int) -> None:
        """Counts `size` bytes that `label` is about to make. UnsupportedError when that is beyond the limit."""
        limit = max(LEAST, TIMES * self.given)
        self.made += size
        if self.made > limit:
            raise UnsupportedError(label, "constants computed from others are bounded, all of a model together",
                                   limit=f"{limit} bytes", found=f"{self.made} bytes",
                                   remedy="store them as initialisers, or export a model that computes less of itself")
