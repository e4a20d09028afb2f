"""What differs between two programs: tasks in words and in bits, buffers, constants by the task that reads them."""

from openane.program.diff.compare import diff
from openane.program.diff.records import (
    AttributeChange,
    BufferChange,
    ConstantChange,
    Diff,
    FieldChange,
    TaskChange,
)
from openane.program.diff.text import diff_document, diff_lines

__all__ = ["AttributeChange", "BufferChange", "ConstantChange", "Diff", "FieldChange", "TaskChange", "diff",
           "diff_document", "diff_lines"]
