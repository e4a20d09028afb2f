"""Calls of loops written down as numbers, so that machine code makes many of them one after another.

A record is a row of int64: the number of the loop; how many of the first results must be zero; where the survey of what
was stored lies among the results, or -1; the arguments, arrays as the addresses of their objects; the results.

A sequence of records ends early at one whose results are not zero where they must be, and behind one that has stored an
infinity, for somebody must count these before they are overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openane.machine_code.described import TaskLoop
from openane.record_classes import dataclass

LOOP, ZEROS, SURVEY, ARGUMENTS = 0, 1, 2, 3
"""Columns of a record: see above."""
MOST_ZEROS = 2
HIGH, SIGNED_HIGH = 1, 2
"""Behind the first number of a survey, the smallest word: the largest, and the largest as a signed number."""
Called = Callable[[int, int, int], int]
"""Runs the records at an address from one row up to another. The row that is not done, or the last one; -1 - that row
where the one before it has stored an infinity."""


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Columns of the records of some loops."""

    kinds: tuple[tuple[str, ...], ...]
    results: int
    width: int

    @staticmethod
    def of(loops: Sequence[TaskLoop]) -> RecordLayout:
        """As many columns as the loops with most arguments and most results need."""
        kinds = tuple(loop.passed for loop in loops)
        results = ARGUMENTS + max(map(len, kinds), default=0)
        return RecordLayout(kinds, results, results + max([MOST_ZEROS, *(len(loop.gives) for loop in loops)]))

    def record(self, loop: int, arguments: Sequence[object], zeros: int, survey: int) -> list[int]:
        """The numbers of one row. Somebody must keep the arrays among the arguments."""
        flat: list[object] = []
        for each in arguments:
            if isinstance(each, tuple):
                flat += each
            else:
                flat.append(each)
        row = [loop, zeros, survey, *map(_number, self.kinds[loop], flat)]
        return row + [0] * (self.width - len(row))


@dataclass(frozen=True, slots=True)
class Sequencer:
    """Runs records of some loops, and writes what they give."""

    layout: RecordLayout
    called: Called


def _number(kind: str, value: object) -> int:
    """An argument as int64."""
    if isinstance(value, np.ndarray):
        return id(value)
    if kind == "float32":
        return int(np.float32(value).view(np.int32))  # type: ignore[arg-type]
    return int(value)  # type: ignore[call-overload,no-any-return]
