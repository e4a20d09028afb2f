"""The exceptions openane raises on purpose.

    AneError
    ├── FormatError        bytes of a file: offset, what was expected, what was found
    ├── GraphError         a model graph that is malformed or inconsistent
    ├── UnsupportedError   a legal model the engine cannot take: operation, rule, limit, remedy
    ├── ProgramError       an engine program: task, register, field
    │   └── VerifyError    every violation the verifier found
    ├── SimulationError    execution on the simulator
    └── DeviceError        a device that is absent, refuses or fails

Anything else that escapes the library is a defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self


class AneError(Exception):
    """Root of every error openane raises on purpose."""

    def within(self, place: object) -> Self:
        """The same error, its message preceded by the file or part it was found in."""
        self.args = (f"{place}: {self}",)
        return self


class FormatError(AneError):
    """A file does not follow its format.

    `offset` is the byte position (line number for text formats), `expected` and `found` say what the rule is
    and what the file holds.
    """

    def __init__(self, message: str, *, offset: int | None = None, expected: object = None,
                 found: object = None) -> None:
        self.offset, self.expected, self.found = offset, expected, found
        where = "" if offset is None else f"at offset 0x{offset:x}: "
        detail = "" if expected is None else f" (expected {expected}, found {found})"
        super().__init__(f"{where}{message}{detail}")


class GraphError(AneError):
    """A model graph is malformed: unknown value, wrong type, shapes that do not fit."""


class UnsupportedError(AneError):
    """A legal operation that cannot be compiled: which one, which rule, which limit, what would pass."""

    def __init__(self, operation: str, rule: str, *, limit: object = None, found: object = None,
                 remedy: str | None = None) -> None:
        self.operation, self.rule, self.limit, self.found, self.remedy = operation, rule, limit, found, remedy
        text = f"{operation}: {rule}"
        stated = [f"{word} {value}" for word, value in (("limit", limit), ("found", found)) if value is not None]
        if stated:
            text += f" ({', '.join(stated)})"
        if remedy:
            text += f"\nhint: {remedy}"
        super().__init__(text)


class ProgramError(AneError):
    """An engine program breaks a rule: which task, register and field."""

    def __init__(self, message: str, *, task: int | None = None, register: str | None = None,
                 field: str | None = None) -> None:
        self.task, self.register, self.field = task, register, field
        where = ".".join(part for part in (register, field) if part)
        prefix = "" if task is None else f"task {task}: "
        super().__init__(f"{prefix}{where + ': ' if where else ''}{message}")


class VerifyError(ProgramError):
    """A program was refused by the verifier; `violations` lists every reason (program.verify.Violation)."""

    def __init__(self, violations: Sequence[object], hint: str | None = None) -> None:
        self.violations = tuple(violations)
        text = "the program was refused:\n" + "\n".join(f"  {v}" for v in self.violations)
        super().__init__(text + (f"\nhint: {hint}" if hint else ""))


class SimulationError(AneError):
    """The simulator cannot execute a program or was given data that does not fit it."""


class DeviceError(AneError):
    """A device is absent, refuses a request or failed."""
