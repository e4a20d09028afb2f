"""Calls of compiled loops with everything bound, so that they can be made one by one or many in a sequence; and what a
prepared task is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from openane.record_classes import dataclass
from openane.simulator.arithmetic.half import extremes
from openane.simulator.kernels import Kernels
from openane.simulator.report import TaskReport
from openane.simulator.threads import Helpers


@dataclass(frozen=True, slots=True)
class GivenNumbers:
    """What a loop gives: counts of what it `reads` first, or none; the survey of what it `stores`, or none."""

    reads: bool
    stores: bool

    @property
    def survey(self) -> int:
        """Where the survey begins; -1 where there is none."""
        return (2 if self.reads else 0) if self.stores else -1

    def describe(self, found: Sequence[int], report: TaskReport) -> None:
        """Reports what the loop gave some time ago, but for infinities stored."""
        if self.reads:
            report.met(found[0], found[1])
        if self.stores:
            report.widen(*extremes(*found[self.survey:self.survey + 3]))


@dataclass(frozen=True, slots=True)
class LoopCall:
    """A call of the loop that `Kernels` names so. The first `zeros` of what it gives must be zero, or its task is
    computed otherwise, and has stored nothing yet. `reads`: it begins with counts of NaN and infinities;
    `stored`: it ends with the survey of these words."""

    loop: str
    arguments: tuple[object, ...]
    zeros: int = 0
    reads: bool = False
    stored: np.ndarray | None = None

    def bound(self, kernels: Kernels, report: TaskReport) -> Callable[[], None]:
        """What makes the call and reports it."""
        loop, arguments = getattr(kernels, self.loop), self.arguments

        def execute() -> None:
            self.count(loop(*arguments), report)

        return execute

    @property
    def gives(self) -> GivenNumbers:
        """What the loop gives."""
        return GivenNumbers(self.reads, self.stored is not None)

    def count(self, found: Sequence[int], report: TaskReport) -> None:
        """Reports what the loop just gave."""
        if self.reads and (found[0] or found[1]):
            report.met(found[0], found[1])
        if self.stored is not None:
            report.surveyed(self.stored, *found[-3:])


Lane = tuple[LoopCall | Callable[[], object], ...]
"""What one thread does, one after the other."""


@dataclass(frozen=True, slots=True)
class Together:
    """Lanes that threads go through at the same time: none touches what another stores, and a source that the task
    itself would read again is none that they store to."""

    lanes: tuple[Lane, ...]

    @staticmethod
    def of(*lanes: Sequence[LoopCall | Callable[[], object]]) -> Together:
        """So many lanes."""
        return Together(tuple(map(tuple, lanes)))


TaskCall = LoopCall | Together | Callable[[], object]


def flat(calls: Sequence[TaskCall]) -> Iterator[LoopCall | Callable[[], object]]:
    """All of them for one thread."""
    for call in calls:
        if isinstance(call, Together):
            yield from chain.from_iterable(call.lanes)
        else:
            yield call


def make(calls: Sequence[TaskCall], kernels: Kernels, report: TaskReport, helpers: Helpers | None) -> bool:
    """Makes calls now, and reports them; False where a loop leaves its task as it is."""
    for call in calls:
        lanes = call.lanes if isinstance(call, Together) else ((call,),)
        done = [partial(_made, lane, kernels) for lane in lanes]
        ends = [each() for each in done] if helpers is None or len(done) == 1 else helpers.share(done)
        if not all(well for well, _ in ends):
            return False
        for _, given in ends:
            for loop, found in given:
                loop.count(found, report)
    return True


def _made(lane: Lane, kernels: Kernels) -> tuple[bool, list[tuple[LoopCall, Sequence[int]]]]:
    """Whether all of a lane was done, and what its loops gave."""
    given = list[tuple[LoopCall, Sequence[int]]]()
    for call in lane:
        if not isinstance(call, LoopCall):
            call()
            continue
        found = getattr(kernels, call.loop)(*call.arguments)
        numbers: Sequence[int] = found if isinstance(found, tuple) else (found,)
        if any(numbers[:call.zeros]):
            return False, given
        given.append((call, numbers))
    return True, given


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """All that computes a task: calls of loops, and other functions. `follows`: source elements are those that the task
    just before has left decoded."""

    calls: tuple[TaskCall, ...]
    follows: bool = False


class PreparedTask:
    """A task of which everything is known but what lies in memory."""

    def execute(self) -> None:
        """Computes its result."""
        raise NotImplementedError

    def calls(self, before: object) -> TaskCalls | None:
        """What computes it when it has been executed once; None where that is not known, or not always the same.
        `before` is the prepared task that is computed by its calls just before, or None."""
        return None
