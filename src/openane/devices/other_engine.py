"""A simulated engine that is not as believed, behind a driver or a runtime: what it does, what it takes, what fails.

How it computes is the simulator's (`openane.simulator.variation`). Here are its clock, which the timing model moves,
and runs that fail without a consequence. Devices name it by `engine=`, see `docs/attesting.md`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import exp

from openane.chips.machines import Figure
from openane.engine import Operation
from openane.errors import DeviceError, SimulationError
from openane.simulator.variation import STANDARD, Variation, parse_variation
from openane.timing import ClockState, Rates, SubmissionRoute, dispatch, rates, schedule


def engine_seconds(operations: Sequence[Operation], chip: str, route: SubmissionRoute,
                   variation: Variation = STANDARD) -> float:
    """Seconds of one call by the timing model, on a chip (`m1`) whose rates a variation changes: through the Linux
    driver at the lowest clock, through macOS at the full one."""
    factors = dict(variation.rates)
    rate = varied(rates(chip, state_of(route)), factors)
    busy = schedule(operations, rate).seconds
    return busy + (dispatch(rate.chip, route, busy).value or 0.0) * factors.get("dispatch", 1.0)


def state_of(route: SubmissionRoute) -> ClockState:
    """How far the clock is raised for programs that come this way: nobody raises it on Linux."""
    return ClockState.LOWEST if route is SubmissionRoute.LINUX else ClockState.FULL


def varied(rate: Rates, factors: dict[str, float]) -> Rates:
    """Rates with some multiplied."""
    changed = {name: Figure((getattr(rate, name).value or 0.0) * factor, getattr(rate, name).known)
               for name, factor in factors.items() if name != "dispatch"}
    return replace(rate, **changed)  # type: ignore[arg-type]


class OtherEngine:
    """One engine with a clock of its own, in seconds."""

    def __init__(self, variation: Variation, chip: str, route: SubmissionRoute) -> None:
        """`chip` is the one whose rates the clock follows."""
        self.variation, self._chip, self._route = variation, chip, route
        self._random = random.Random(variation.seed)
        self._now = 0.0

    def clock(self) -> float:
        """What stands in for the host's clock."""
        return self._now

    def fails(self) -> bool:
        """Whether the next run fails."""
        return self.variation.fail > 0 and self._random.random() < self.variation.fail

    def ran(self, operations: Sequence[Operation]) -> None:
        """Moves the clock by one call."""
        scatter = exp(self._random.gauss(0, self.variation.noise)) if self.variation.noise else 1.0
        self._now += engine_seconds(operations, self._chip, self._route, self.variation) * scatter


def other_engine(text: str | None, chip: str, route: SubmissionRoute) -> OtherEngine | None:
    """The engine of a device's option; None without one. DeviceError when the text means nothing."""
    if text is None:
        return None
    try:
        return OtherEngine(parse_variation(text), chip, route)
    except SimulationError as error:
        raise DeviceError(f"engine={text[:200]}: {error}") from None


__all__ = ["OtherEngine", "engine_seconds", "other_engine", "state_of", "varied"]
