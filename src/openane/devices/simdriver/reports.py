"""What the simulated driver says about wrong clients: accesses outside buffers, hangs, leaks, use after free."""

from __future__ import annotations

from enum import StrEnum

from openane.record_classes import dataclass


class ReportKind(StrEnum):
    """What went wrong."""

    BOUNDS = "bounds"          # a task reaches beyond the buffer its slot is bound to
    UNBOUND = "unbound"        # a task uses a slot without a buffer
    PROTECTED = "protected"    # a task writes to the commands or the constants
    UNMAPPED = "unmapped"      # an access reaches an address where nothing is mapped
    CHAIN = "chain"            # the chain of tasks leads astray, or is not as long as the submission says
    DESCRIPTOR = "descriptor"  # a task is none, or says what the engine is not known to do
    BOOTSTRAP = "bootstrap"    # no copy of the first task, or without the driver's network number
    STUCK = "stuck"            # the engine did not recover from an earlier hang


@dataclass(frozen=True, slots=True)
class FaultReport:
    """A submission the engine cannot finish, or may not: task and operand, the first wrong device address, the buffer
    the task should have stayed in, by how many bytes it leaves it, and whose buffer it would have hit."""

    kind: ReportKind
    client: int
    text: str
    task: int | None = None
    operand: str | None = None
    address: int | None = None
    handle: int | None = None
    beyond: int = 0
    victim: str | None = None

    def __str__(self) -> str:
        where = "" if self.task is None else f"task {self.task}: "
        role = "" if self.operand is None else f"{self.operand} "
        victim = "" if self.victim is None else f", into {self.victim}"
        return f"client {self.client}: {where}{role}{self.text}{victim}"


@dataclass(frozen=True, slots=True)
class LeakReport:
    """Buffers a file was closed without freeing: (handle, bytes) of each."""

    client: int
    buffers: tuple[tuple[int, int], ...]
    reclaimed: bool

    def __str__(self) -> str:
        listed = ", ".join(f"handle {handle} ({size} bytes)" for handle, size in self.buffers)
        fate = "they were reclaimed" if self.reclaimed else "they stay until the driver is closed"
        return f"client {self.client}: closed without freeing {listed}; {fate}"


@dataclass(frozen=True, slots=True)
class StaleReport:
    """Memory of a buffer that was used after it was freed, or was still mapped when it was."""

    client: int
    handle: int
    offset: int
    text: str

    def __str__(self) -> str:
        return f"client {self.client}: handle {self.handle}: {self.text}"


Report = FaultReport | LeakReport | StaleReport


class DriverError(OSError):
    """A failed request: the driver's errno, and the reports that say why where there are any."""

    def __init__(self, code: int, text: str, *reports: Report) -> None:
        super().__init__(code, text)
        self.reports = reports
