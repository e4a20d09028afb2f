"""Programs that were scheduled a moment ago: a network that is compiled again, with other weights or other inputs to
measure ranges by, becomes the same operations, and these the same tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from openane.chips import Chip
from openane.chips.emit.repeats import signs
from openane.compiler.buffers.storage import VirtualBuffer
from openane.compiler.schedule.pipeline import ScheduledOperations
from openane.engine import Operation
from openane.engine.table import TableKind
from openane.record_classes import dataclass

Known = tuple["Schedulable", ScheduledOperations]
MOST_OPERATIONS = 1 << 13
"""Operations that all remembered programs have together."""


@dataclass(frozen=True, slots=True)
class Schedulable:
    """All that tasks follow from: operations over virtual buffers, these, the slots of ports, the kinds of the tables
    that the operations have, and how far programs are changed to take less time."""

    chip: Chip
    level: int
    ports: tuple[int, ...]
    kinds: tuple[TableKind | None, ...]
    operations: tuple[Operation, ...]
    blocks: Mapping[int, VirtualBuffer]

    def same(self, other: Schedulable) -> bool:
        """Whether the other becomes the same tasks. Numbers that are equal may differ still: 0.0 and -0.0."""
        return (self.chip is other.chip and self._small == other._small and self.operations == other.operations
                and self.blocks == other.blocks
                and all(map(_same_signs, self.operations, other.operations)))

    @property
    def _small(self) -> tuple[object, ...]:
        return self.level, len(self.operations), self.ports, self.kinds


class Remembered:
    """What programs became, the last first, those of `most` operations in all."""

    def __init__(self, most: int = MOST_OPERATIONS) -> None:
        self._most = most
        self._known: tuple[Known, ...] = ()

    def get(self, wanted: Schedulable) -> ScheduledOperations | None:
        """What was made of the same program."""
        return next((made for known, made in self._known if known.same(wanted)), None)

    def add(self, program: Schedulable, made: ScheduledOperations) -> None:
        """Keeps what was made of a program, and forgets what was made longest ago where that is too much."""
        if len(program.operations) <= self._most:
            self._known = tuple(self._fitting(((program, made), *self._known)))

    def _fitting(self, known: Sequence[Known]) -> Iterable[Known]:
        total = 0
        for program, made in known:
            total += len(program.operations)
            if total > self._most:
                return
            yield program, made


def _same_signs(first: Operation, second: Operation) -> bool:
    return first is second or signs(first) == signs(second)


@cache
def remembered() -> Remembered:
    """What this process remembers."""
    return Remembered()
