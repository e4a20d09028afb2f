"""Engine programs: tasks, buffers, layouts. Imports no numpy."""

from openane.program.model import Buffer, Constants, Layout, Program, Role, Task

__all__ = ["Buffer", "Constants", "Layout", "Program", "Role", "Task"]
