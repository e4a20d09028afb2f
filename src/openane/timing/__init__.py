"""How long a program takes on a chip: from its engine operations and published clocks, widths and bandwidths."""

from __future__ import annotations

from openane.timing.operation import Part, Times, Work, times, work
from openane.timing.parameters import BELIEVED, Parameter, Parameters
from openane.timing.program import ProgramTime, TaskTime, operations_of, program_time, schedule
from openane.timing.rates import Rates, State, rates
from openane.timing.routes import Route, copies, dispatch, waking

__all__ = ["BELIEVED", "Parameter", "Parameters", "Part", "ProgramTime", "Rates", "Route", "State", "TaskTime", "Times",
           "Work", "copies", "dispatch", "operations_of", "program_time", "rates", "schedule", "times", "waking",
           "work"]
