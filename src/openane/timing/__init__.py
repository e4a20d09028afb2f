"""How long a program takes on a chip: from its engine operations and published clocks, widths and bandwidths."""

from __future__ import annotations

from openane.timing.operation import EnginePart, Times, Work, times, work
from openane.timing.parameters import BELIEVED, TimingParameter, TimingParameters
from openane.timing.program import ProgramTime, TaskTime, operations_of, program_time, schedule
from openane.timing.rates import ClockState, Rates, rates
from openane.timing.routes import SubmissionRoute, copies, dispatch, waking

__all__ = [
           "BELIEVED",
           "ClockState",
           "EnginePart",
           "ProgramTime",
           "Rates",
           "SubmissionRoute",
           "TaskTime",
           "Times",
           "TimingParameter",
           "TimingParameters",
           "Work",
           "copies",
           "dispatch",
           "operations_of",
           "program_time",
           "rates",
           "schedule",
           "times",
           "waking",
           "work",
]
