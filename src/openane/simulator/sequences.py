"""A whole run as few calls: the loops of tasks one after another in machine code, see `machine_code.records`, with
numpy's functions and the other tasks in between.

What a loop finds that it does not do (infinities among the elements of a product) is left to the task itself, which is
executed as if there were no sequence: the numbers are the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise

import numpy as np

from openane.machine_code.records import RecordLayout, Sequencer
from openane.record_classes import dataclass, many_records
from openane.simulator.arithmetic.half import count_infinite
from openane.simulator.calls import GivenNumbers, LoopCall, PreparedTask, TaskCalls, Together, flat
from openane.simulator.context import Workspace
from openane.simulator.kernels import NUMBERS
from openane.simulator.report import TaskReport, TaskReports

AGAIN = frozenset({1, 4, 16, 64})
"""Runs after which steps are bound: some come to have calls later, once their results are tabulated."""


@dataclass(frozen=True, slots=True)
class RunStep:
    """A task of a run: what is prepared, its report, and what moves its operands before and after. `repeatable`: it
    stores nothing where its operands are."""

    task: PreparedTask
    report: TaskReport
    loads: tuple[Callable[[], None], ...]
    stores: tuple[Callable[[], None], ...]
    repeatable: bool = True

    def calls(self, before: object) -> TaskCalls | None:
        """Those of the task; None also where one of them may leave it when another has stored over its operands."""
        found = self.task.calls(None if self.loads else before)
        leaving = found is not None and any(isinstance(call, LoopCall) and call.zeros for call in flat(found.calls))
        return None if leaving and not self.repeatable else found

    def execute(self) -> None:
        """Executes it alone."""
        self.report.reset()
        for load in self.loads:
            load()
        self.task.execute()
        for store in self.stores:
            store()


Part = tuple[int, int] | Callable[[], object]
"""Rows from one up to another, or another function."""


@dataclass(frozen=True, slots=True)
class _Pause:
    """What is done between two rows of records, and for which step: an action, or `lanes` that threads go through at
    the same time, whose rows end before row `end`; neither: the step is executed alone."""

    row: int
    step: int
    action: Callable[[], object] | None = None
    lanes: tuple[tuple[Part, ...], ...] = ()
    end: int = 0


@dataclass(frozen=True, slots=True)
class _LaneEnd:
    """How a lane ended: rows that have stored infinities, and whether one of the rows was not done."""

    infinite: list[int]
    left: bool


@dataclass(frozen=True, slots=True)
class StepLoops:
    """What the loops of a step give, from one row of records on, and a report of its task."""

    report: TaskReport
    row: int
    gives: tuple[GivenNumbers, ...]

    def described(self, number: int, results: np.ndarray, infinite: int) -> TaskReport:
        """The report of step `number` by what all loops gave; so many infinities were stored."""
        found = self.report.numbered(number)
        found.reset()
        found.overflows = infinite
        for row, each in enumerate(self.gives, self.row):
            each.describe(results[row].tolist(), found)
        return found


class RunSequence:
    """Steps that were executed before, bound to where everything lies."""

    def __init__(self, steps: Sequence[RunStep], sequencer: Sequencer, workspace: Workspace) -> None:
        self._steps, self._workspace = steps, workspace
        self._calls = list[LoopCall]()
        self._owner = list[int]()      # of every row its step
        self._first = list[int]()      # of every step its first row
        self._follows = list[bool]()
        self._pauses = list[_Pause]()
        self._always_alone = set[int]()  # steps that are executed by themselves
        for number, step in enumerate(steps):
            self._append(number, step)
        self._first.append(len(self._calls))
        self._follows.append(False)
        self._records = self._written(sequencer.layout)
        self._loops = [StepLoops(step.report, row, tuple(call.gives for call in self._calls[row:end]))
                       for step, (row, end) in zip(steps, pairwise(self._first), strict=True)]
        self._run, self._results, self._address = sequencer.called, sequencer.layout.results, self._records.ctypes.data
        self._infinite = dict[int, int]()  # of this run, by step

    @property
    def whole(self) -> bool:
        """Whether no step is executed by itself."""
        return not self._always_alone

    def run(self) -> TaskReports:
        """Runs all steps."""
        row, last_alone = 0, -1
        self._infinite, alone = {}, set(self._always_alone)
        for pause in self._pauses:
            row, last_alone = self._advance(row, pause.row, last_alone, alone)
            if pause.step <= last_alone:
                continue
            if pause.lanes:
                row, last_alone = self._advance_together(pause, last_alone, alone)
            elif pause.action is not None:
                pause.action()
            else:
                self._execute(pause.step)
        self._advance(row, len(self._calls), last_alone, alone)
        return self._reports(alone)

    def _append(self, number: int, step: RunStep) -> None:
        self._first.append(len(self._calls))
        before = number - 1
        known = self._steps[before].task if before >= 0 and before not in self._always_alone else None
        found = step.calls(known)
        self._follows.append(found is not None and found.follows)
        if found is None:
            self._always_alone.add(number)
            self._pauses.append(_Pause(len(self._calls), number))
            return
        for call in (*step.loads, *found.calls, *step.stores):
            if isinstance(call, Together):
                self._append_together(number, call)
            else:
                self._append_call(number, call)

    def _append_call(self, number: int, call: LoopCall | Callable[[], object]) -> None:
        if isinstance(call, LoopCall):
            self._calls.append(call)
            self._owner.append(number)
        else:
            self._pauses.append(_Pause(len(self._calls), number, call))

    def _append_together(self, number: int, together: Together) -> None:
        """Lanes of a step; what one thread does is done in their order."""
        if min(len(together.lanes), self._workspace.threads) <= 1:
            for call in chain.from_iterable(together.lanes):
                self._append_call(number, call)
            return
        first, lanes = len(self._calls), list[tuple[Part, ...]]()
        for lane in together.lanes:
            parts = list[Part]()
            for call in lane:
                if isinstance(call, LoopCall):
                    self._calls.append(call)
                    self._owner.append(number)
                    parts.append((len(self._calls) - 1, len(self._calls)))
                else:
                    parts.append(call)
            lanes.append(tuple(parts))
        self._pauses.append(_Pause(first, number, lanes=tuple(lanes), end=len(self._calls)))

    def _written(self, layout: RecordLayout) -> np.ndarray:
        """A row of every call."""
        rows = [layout.record(NUMBERS[call.loop], call.arguments, call.zeros, call.gives.survey)
                for call in self._calls]
        return np.array(rows, np.int64).reshape(-1, layout.width)  # there may be none

    def _execute(self, number: int) -> None:
        """A step by itself. What a product before it has decoded was overwritten."""
        self._workspace.held = None
        self._steps[number].execute()

    def _advance(self, row: int, end: int, last_alone: int, alone: set[int]) -> tuple[int, int]:
        """Runs rows up to `end`, and steps that loops leave as they are. The row after that, which may be behind `end`,
        and the last step that was executed by itself."""
        while row < end:
            row = self._run_to(row, end, self._count_infinities)
            if row < end:
                last_alone = self._execute_alone(self._owner[row], alone)
                row = self._first[last_alone + 1]
        return row, last_alone

    def _run_to(self, row: int, end: int, stored: Callable[[int], object]) -> int:
        """Runs rows up to `end`, or to one that is not done, which it gives. `stored` is told at once of those that
        have stored infinities."""
        while row < end:
            reached = self._run(self._address, row, end)
            if reached >= 0:
                return reached
            row = -1 - reached
            stored(row - 1)
        return row

    def _advance_together(self, pause: _Pause, last_alone: int, alone: set[int]) -> tuple[int, int]:
        """Goes through the lanes of a step; the same as for `_advance`."""
        helpers = self._workspace.helpers
        assert helpers is not None, "there are lanes where several threads share a run"
        ends = helpers.share([partial(self._run_lane, lane) for lane in pause.lanes])
        if any(each.left for each in ends):
            last_alone = self._execute_alone(pause.step, alone)
            return self._first[last_alone + 1], last_alone
        for each in ends:
            for row in each.infinite:
                self._count_infinities(row)
        return pause.end, last_alone

    def _run_lane(self, lane: tuple[Part, ...]) -> _LaneEnd:
        """Goes through one lane, up to a row that is not done."""
        infinite = list[int]()
        for part in lane:
            if not isinstance(part, tuple):
                part()
                continue
            if self._run_to(*part, infinite.append) < part[1]:
                return _LaneEnd(infinite, left=True)
        return _LaneEnd(infinite, left=False)

    def _count_infinities(self, row: int) -> None:
        stored, step = self._calls[row].stored, self._owner[row]
        assert stored is not None
        self._infinite[step] = self._infinite.get(step, 0) + count_infinite(stored)

    def _execute_alone(self, number: int, alone: set[int]) -> int:
        """Executes a step, and those behind it that need what it would have left decoded. The last one."""
        while True:
            self._infinite.pop(number, None)
            self._execute(number)
            alone.add(number)
            if not self._follows[number + 1]:
                return number
            number += 1

    def _reports(self, alone: set[int]) -> TaskReports:
        """What was seen, kept as it is now, and nothing else of the program: reports may outlive it."""
        own = {number: self._steps[number].report.numbered(number) for number in alone}
        results, infinite, loops = self._records[:, self._results:].copy(), self._infinite, self._loops
        return TaskReports(len(loops), lambda: [
            own[number] if number in own else each.described(number, results, infinite.get(number, 0))
            for number, each in enumerate(loops)])


class Sequences:
    """Runs the steps of a program: one by one at first, as a sequence from the second run with compiled loops on."""

    def __init__(self, steps: Sequence[RunStep], workspace: Workspace) -> None:
        self._steps, self._workspace = steps, workspace
        self._known: RunSequence | None = None
        self._runs = 0

    def forget(self) -> None:
        """Weights are others now, or lie elsewhere."""
        self._known, self._runs = None, 0

    def run(self) -> TaskReports | None:
        """Runs all steps. What a sequence has seen; None where every step has a report of its own."""
        kernels = self._workspace.kernels
        if kernels is not None and kernels.sequencer is not None:
            if self._is_due():
                with many_records():
                    self._known = RunSequence(self._steps, kernels.sequencer, self._workspace)
            self._runs += 1
        if self._known is not None:
            return self._known.run()
        for step in self._steps:
            step.execute()
        return None

    def _is_due(self) -> bool:
        """Whether steps are bound, or bound again, before this run."""
        return self._runs in AGAIN and (self._known is None or not self._known.whole)
