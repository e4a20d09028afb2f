"""The exceptions openane raises on purpose.

    AneError
    ├── FormatError        bytes of a file: offset, what was expected, what was found
    ├── GraphError         a model graph that is malformed or inconsistent
    ├── UnsupportedError   a legal model the engine cannot take: operation, rule, limit, remedy
    ├── ProgramError       an engine program: task, register, field
    │   └── VerifyError    every violation the verifier found
    ├── SimulationError    execution on the simulator
    ├── GenerationError    a text a language model is asked for: numbers out of range, nothing to go on, one at a time
    │   └── ContextFull    tokens beyond the model's context: limit and how many were asked for
    └── DeviceError        a device that is absent, refuses or fails
        ├── DeviceUnavailable  absent, not permitted or not usable on this machine: what is missing, and its remedy
        ├── DeviceRejected     the device's software refuses a request or a program: every reason
        ├── SubmitFailed       a run failed: where the code comes from, the code, its text
        │   └── DeviceHung     a run did not end in time
        ├── DeviceChanged      the device's software is not the one we know: what was expected and found
        └── BudgetExhausted    no more programs can be compiled or loaded: limit and count

Anything else that escapes the library is a defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

MOST_SHOWN = 10
"""Reasons of one refusal that its message gives."""


class AneError(Exception):
    """Root of every error openane raises on purpose."""

    def within(self, place: object) -> Self:
        """The same error, its message preceded by the file or part it was found in, once."""
        if not str(self).startswith(f"{place}: "):
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
    """A program was refused by the verifier; `violations` lists every reason (program.verify.Violation), the text the
    first of them."""

    def __init__(self, violations: Sequence[object], hint: str | None = None) -> None:
        self.violations = tuple(violations)
        lines = ["the program was refused:", *(f"  {each}" for each in self.violations[:MOST_SHOWN])]
        if len(self.violations) > MOST_SHOWN:
            lines.append(f"  and {len(self.violations) - MOST_SHOWN} more, which 'ane verify' lists")
        super().__init__("\n".join(lines + ([f"hint: {hint}"] if hint else [])))


class SimulationError(AneError):
    """The simulator cannot execute a program or was given data that does not fit it."""


class GenerationError(AneError):
    """A language model cannot continue: an option out of range, scores that are no numbers, another text under way."""


class ContextFull(GenerationError):
    """More tokens than the model's context holds."""

    def __init__(self, limit: int, asked: int, remedy: str = "shorten the text, or load the model with a larger context"
                 ) -> None:
        self.limit, self.asked = limit, asked
        super().__init__(f"the context holds {limit} tokens, not {asked}\nhint: {remedy}")


class DeviceError(AneError):
    """A device is absent, refuses a request or failed."""


class DeviceUnavailable(DeviceError):
    """A device that cannot be used here: `missing` says what is not there or not permitted, `remedy` what helps."""

    def __init__(self, missing: str, remedy: str | None = None) -> None:
        self.missing, self.remedy = missing, remedy
        super().__init__(missing + (f"\nhint: {remedy}" if remedy else ""))


class DeviceRejected(DeviceError):
    """What the device's software refuses to take; `reasons` lists why."""

    def __init__(self, request: str, reasons: Sequence[str]) -> None:
        self.request, self.reasons = request, tuple(reasons)
        super().__init__(f"{request} was refused: " + "; ".join(self.reasons or ("no reason was given",)))


class SubmitFailed(DeviceError):
    """A run that failed. `domain` says where `code` comes from: "errno", or the domain of an NSError."""

    def __init__(self, request: str, *, domain: str, code: int, text: str = "") -> None:
        self.request, self.domain, self.code, self.text = request, domain, code, text
        number = f" ({domain} {code if domain == 'errno' else hex(code)})" if code else ""
        super().__init__(f"{request} failed: {text or 'no text was given'}{number}")


class DeviceHung(SubmitFailed):
    """A run that did not end within `seconds`."""

    def __init__(self, request: str, seconds: float, *, domain: str = "time-out", code: int = 0,
                 text: str = "") -> None:
        self.seconds = seconds
        super().__init__(request, domain=domain, code=code,
                         text=f"it did not end within {seconds:g} s" + (f": {text}" if text else ""))


class DeviceChanged(DeviceError):
    """An interface of the system that is not the one we know: nothing was called."""

    def __init__(self, interface: str, *, expected: object, found: object) -> None:
        self.interface, self.expected, self.found = interface, expected, found
        super().__init__(f"{interface} is not the interface that is known (expected {expected}, found {found}); "
                         "'ane doctor --survey' writes what this system has")


class BudgetExhausted(DeviceError):
    """A limit of the system on programs per process or address space that is used up."""

    def __init__(self, resource: str, *, limit: int, used: int, remedy: str) -> None:
        self.resource, self.limit, self.used, self.remedy = resource, limit, used, remedy
        super().__init__(f"{resource}: {used} of {limit} are used\nhint: {remedy}")
