"""Executes engine programs: memory, both engines, tables and exact arithmetic, from task words or operations."""

from openane.simulator.arithmetic import EXACT_PRODUCTS, Mode
from openane.simulator.executable import LoadedProgram, load, load_operations
from openane.simulator.report import RunReport, TaskReport, TaskReports

__all__ = ["EXACT_PRODUCTS", "LoadedProgram", "Mode", "RunReport", "TaskReport", "TaskReports", "load",
           "load_operations"]
