"""What happens during a compilation, as records for those who watch it, in the order in which it happens."""

from __future__ import annotations

from collections.abc import Callable

from openane.chips import Chip
from openane.compiler.lower.lowered import Lowered
from openane.compiler.schedule.pipeline import ScheduledOperations
from openane.graph import Graph
from openane.record_classes import dataclass


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
