"""Engine programs: tasks, buffers, layouts. Imports no numpy."""

from openane.program.model import Buffer, ByteRange, Constants, Layout, Program, Role, Task

__all__ = ["Buffer", "ByteRange", "Constants", "Layout", "Program", "Role", "Task"]
