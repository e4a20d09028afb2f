"""How much a model may make of itself while it is read and compiled: a few bytes of a file can ask for arrays of any
size.

What is made counts when it is asked for, before memory is taken, and counts for good: the total bounds memory and work.
"""

from __future__ import annotations

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph.graph import Graph, RoundedConstant, Value
from openane.graph.types import numpy_type
from openane.record_classes import dataclass

LEAST = 1 << 30
"""Bytes that any model may make: models published without weights make up to 600 million bytes of them."""
TIMES = 32
"""How often the bytes of its own constants a model may make: casts, transpositions and scales of weights follow each
other."""
WORK = 16
"""Multiplications and additions for each byte that may be made: products of weights take many for each of their
results."""
STATED = "limit:constants"
"""The key of a graph's metadata that states its limit in bytes, where it has one of its own."""


@dataclass(slots=True)
class Budget:
    """Bytes of constants a file holds, as far as they were read, and bytes that were computed from them. `stated`: the
    limit of those in bytes, None for that of any model."""

    given: int = 0
    made: int = 0
    stated: int | None = None
    work: float = 0.0

    @staticmethod
    def of(graph: Graph) -> Budget:
        """That of a graph: every array among its constants counts once. GraphError when its metadata states a limit
        that is no number of bytes."""
        text = graph.metadata.get(STATED)
        if text is not None and not text.isdecimal():
            raise GraphError(f"{STATED} of a graph must be a number of bytes, not {text[:40]!r}")
        sizes = dict(sized for node in graph.nodes for value in node.values() if (sized := _size(value)) is not None)
        return Budget(sum(sizes.values()), stated=None if text is None else int(text))

    @property
    def limit(self) -> int:
        """Bytes that may be made altogether."""
        return max(LEAST, TIMES * self.given) if self.stated is None else self.stated

    def read(self, array: np.ndarray) -> None:
        """Counts an array that the file holds."""
        self.given += array.nbytes

    def take(self, label: str, size: int, work: float = 0.0) -> None:
        """Counts `size` bytes that `label` is about to make, with so many multiplications. UnsupportedError when either
        is beyond the limit."""
        self.made += size
        self.work += work
        if self.made > self.limit:
            raise self._refusal(label, f"{self.limit} bytes", f"{self.made} bytes")
        if self.work > WORK * self.limit:
            raise self._refusal(label, f"{WORK * self.limit} multiplications", f"{self.work:.0f} multiplications")

    def state(self, metadata: dict[str, str]) -> None:
        """Says in a graph's metadata how much may be made, where that was stated, or where more was made than the file
        holds: what was made must not raise the limit of those who go on."""
        if self.stated is not None or self.made > max(self.given, LEAST // TIMES):
            metadata[STATED] = str(self.limit)

    def _refusal(self, label: str, limit: str, found: str) -> UnsupportedError:
        return UnsupportedError(label, "constants computed from others are bounded, all of a model together",
                                limit=limit, found=found,
                                remedy="store them in the file, export a model that computes less of itself, or state "
                                       "another limit (on the command line --limit)")


def _size(value: Value) -> tuple[int, int] | None:
    """What tells the array of a constant from others, and its bytes; None of what is no array."""
    if isinstance(value, RoundedConstant):  # which may not be rounded yet
        return id(value.stated), value.type.elements * numpy_type(value.dtype).itemsize
    return (id(value.data), value.data.nbytes) if isinstance(value.data, np.ndarray) else None
