"""What a run reports: per task, which arithmetic was used and what the values it stored looked like."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import chain
from typing import overload

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import (
    INFINITY_BITS,
    Bits,
    count_infinite,
    count_nan,
    extremes,
    has_special,
    is_nan,
    special,
    survey,
)


@dataclass(slots=True)
class TaskReport:
    """One task of one run. `low` and `high` are the extremes of the stored values; None before anything is stored.

    `overflows` counts infinite values stored and `infinite_inputs` those read: where the second is 0 the first arose
    in this task. `nan_inputs` counts NaN at the input boundary, where the engine takes them for +inf.
    `arithmetic` is `exact` or `fast` for tasks that multiply and accumulate, `none` for the others; `form` is what
    computed it (`numpy`, `numba`), which changes no bit.
    """

    index: int
    operation: str
    arithmetic: str = "none"
    form: str = "numpy"
    nan_inputs: int = 0
    infinite_inputs: int = 0
    overflows: int = 0
    low: float | None = None
    high: float | None = None

    def reset(self) -> None:
        """Forgets what an earlier run left."""
        self.nan_inputs = self.infinite_inputs = self.overflows = 0
        self.low = self.high = None

    def saw(self, bits: np.ndarray) -> None:
        """Counts NaN and infinities in a block of raw input elements (fp16 words; integers have none)."""
        if bits.dtype == np.uint16 and has_special(bits):
            self.nan_inputs += count_nan(bits)
            self.infinite_inputs += count_infinite(bits)

    def stored(self, bits: Bits) -> None:
        """Counts a block of fp16 words without NaN as stored."""
        low, high, signed_high = survey(bits)
        self.held(bits, *extremes(low, high, signed_high))

    def held(self, bits: Bits, low: float, high: float) -> None:
        """Counts a block of fp16 words without NaN as stored, of which the extremes are known."""
        if low == -math.inf or high == math.inf:
            self.overflows += count_infinite(bits)
        self.widen(low, high)

    def surveyed(self, bits: Bits, low: int, high: int, signed_high: int) -> None:
        """Counts a block of fp16 words without NaN as stored, whose `survey` is known."""
        least, most = extremes(low, high, signed_high)
        if least == -math.inf or most == math.inf:
            self.overflows += count_infinite(bits)
        if self.low is None or least < self.low:
            self.low = least
        if self.high is None or most > self.high:
            self.high = most

    def met(self, nan: int, infinite: int) -> None:
        """Counts NaN and infinities among what was read."""
        self.nan_inputs += nan
        self.infinite_inputs += infinite

    def copied(self, source: np.ndarray, target: np.ndarray) -> None:
        """Counts a block of fp16 words as read and, unchanged but for NaN, stored in `target`,
        where NaN become infinite."""
        low, high, signed_high = survey(source)
        if special(high, signed_high):
            self.saw(source)
            target[is_nan(source)] = INFINITY_BITS
            self.stored(target)
        else:
            self.widen(*extremes(low, high, signed_high))

    def numbered(self, index: int) -> TaskReport:
        """A copy with another number."""
        return TaskReport(index, self.operation, self.arithmetic, self.form, self.nan_inputs, self.infinite_inputs,
                          self.overflows, self.low, self.high)

    def widen(self, low: float, high: float) -> None:
        """Takes `low` and `high` into the extremes."""
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)


class TaskReports(Sequence[TaskReport]):
    """Reports that are made when somebody looks at one."""

    def __init__(self, count: int, make: Callable[[], Sequence[TaskReport]]) -> None:
        self._count = count
        self._make: Callable[[], Sequence[TaskReport]] | None = make
        self._made: tuple[TaskReport, ...] = ()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> TaskReport: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[TaskReport, ...]: ...

    def __getitem__(self, place: int | slice) -> TaskReport | tuple[TaskReport, ...]:
        make = self._make
        if make is not None:  # and then what it knows is let go
            self._made, self._make = tuple(make()), None
        return self._made[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[tuple[TaskReport, ...]], tuple[tuple[TaskReport, ...]]]:
        """Pickled and copied as the reports themselves."""
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        return repr(tuple(self))

    @staticmethod
    def joined(parts: Sequence[Sequence[TaskReport]]) -> Sequence[TaskReport]:
        """Those of several programs, numbered one after another."""
        if len(parts) == 1:
            return parts[0]
        return TaskReports(sum(map(len, parts)),
                           lambda: [task.numbered(number) for number, task in enumerate(chain(*parts))])


@dataclass(frozen=True, slots=True)
class RunReport:
    """One run: every task in order, and the seconds it took."""

    tasks: Sequence[TaskReport] = ()
    seconds: float = 0.0
    conversions: tuple[str, ...] = field(default=())

    @property
    def nan_inputs(self) -> int:
        """NaN inputs over all tasks."""
        return sum(task.nan_inputs for task in self.tasks)

    @property
    def overflows(self) -> int:
        """Infinite values stored over all tasks."""
        return sum(task.overflows for task in self.tasks)

    @property
    def arithmetic(self) -> tuple[str, ...]:
        """Which arithmetics were used, sorted: `exact`, `fast`."""
        return tuple(sorted({task.arithmetic for task in self.tasks} - {"none"}))

    @property
    def forms(self) -> tuple[str, ...]:
        """What computed the tasks that multiply and accumulate, sorted: `numba`, `numpy`."""
        return tuple(sorted({task.form for task in self.tasks if task.arithmetic != "none"}))
