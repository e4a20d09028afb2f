"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How it stands."""

    OK = "ok"
    MISSING = "missing"  # something wanted is not there: `remedy` says what helps
    NOTE = "note"        # good to know, nothing to do
    UNKNOWN = "unknown"  # could not be found out


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `area` groups checks, `found` is what this machine has."""

    area: str
    name: str
    status: Status
    found: str
    remedy: str = ""
