"""What a compilation tells those who watch it, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openane.chips import Chip
from openane.compiler.lower.lowered import Lowered
from openane.compiler.schedule.pipeline import ScheduledOperations
from openane.graph import Graph


@dataclass(frozen=True, slots=True)
class PassesBegin:
    """The passes begin with this graph."""

    graph: Graph


@dataclass(frozen=True, slots=True)
class PassEnds:
    """A pass has made this graph."""

    name: str
    graph: Graph


@dataclass(frozen=True, slots=True)
class ProgramStored:
    """What was lowered has got its places and its tasks."""

    chip: Chip
    lowered: Lowered
    stored: ScheduledOperations


Event = PassesBegin | PassEnds | ProgramStored
Tell = Callable[[Event], None]
"""Called with every event."""
