"""What advice is made of: changes to tasks, whose gain is the time that is left once the changed program is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from openane.engine import Operation
from openane.record_classes import dataclass
from openane.report.profile import NumberKind
from openane.timing import EnginePart

Place = tuple[int, int]
"""(program, task)."""
Change = Callable[[Operation], Operation | None]
"""What becomes of a task's operation; None: it is not needed any more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule says of one operation of the model: `what` costs time, `remedy` helps and changes these tasks."""

    subject: str
    what: str
    remedy: str
    changes: Mapping[Place, Change]


@dataclass(frozen=True, slots=True)
class Reason:
    """One operation a piece of advice is about, why, and the seconds it would save there; None where nobody can say."""

    subject: str
    what: str
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """`remedy` helps, for these reasons, and saves up to `gain` seconds of an inference in all; None where no time is
    at stake or nobody can say. `known` is what the gain is: modelled or extrapolated."""

    remedy: str
    reasons: tuple[Reason, ...]
    gain: float | None = None
    known: NumberKind = NumberKind.MODELLED


@dataclass(frozen=True, slots=True)
class Rest:
    """Time that no advice would save: the seconds of tasks nothing is known to help, by the part of the
    engine that decides, and by the model's operations."""

    seconds: float = 0.0
    parts: Mapping[EnginePart, float] = field(default_factory=dict)
    kinds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is said of a profile. `together`: seconds that all advice would save at once, less than the sum of the
    gains where pieces of advice are about the same time."""

    advice: tuple[Advice, ...]
    together: float
    rest: Rest
    known: NumberKind

    @property
    def overlap(self) -> float:
        """Seconds that more than one piece of advice claims."""
        return max(0.0, sum(each.gain or 0.0 for each in self.advice) - self.together)
