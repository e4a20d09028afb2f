"""Engine programs: tasks, buffers, layouts. Imports no numpy."""

from openane.program.model import CONSTANT_SLOT, TEXT_SLOT, Buffer, Constants, Layout, Program, Role, Task

__all__ = ["CONSTANT_SLOT", "TEXT_SLOT", "Buffer", "Constants", "Layout", "Program", "Role", "Task"]
