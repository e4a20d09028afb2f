"""What this machine can do for the Apple Neural Engine, what is missing, and what helps."""

from __future__ import annotations

from openane.doctor.check import Check, Status
from openane.doctor.everywhere import check_everywhere
from openane.doctor.linux import check_linux
from openane.doctor.machine import Machine, ThisMachine
from openane.doctor.macos import check_macos


def examine(machine: Machine | None = None) -> tuple[Check, ...]:
    """Every check that concerns this machine (or another `Machine`). It reads and asks, and changes nothing."""
    subject = ThisMachine() if machine is None else machine
    checks = list(check_everywhere(subject))
    if subject.system == "Linux":
        checks += check_linux(subject)
    elif subject.system == "Darwin":
        checks += check_macos(subject)
    return tuple(checks)


__all__ = ["Check", "Machine", "Status", "ThisMachine", "examine"]
