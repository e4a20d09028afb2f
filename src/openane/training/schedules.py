"""Schedules: the factor on an optimiser's learning rate at each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import cos, pi
from typing import Protocol

from openane.configuration import within


class Schedule(Protocol):
    """Gives a factor per step."""

    def factor(self, step: int, steps: int) -> float:
        """The factor for step number `step` (from 0) of `steps`."""
        ...


@dataclass(frozen=True)
class ConstantSchedule:
    """1, after a linear warm-up over `warm_up` steps."""

    warm_up: int = within(0, low=0)

    def factor(self, step: int, steps: int) -> float:
        """See `Schedule.factor`."""
        return warming(step, self.warm_up)


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from 1 down to `lowest` over the steps that follow a linear warm-up."""

    warm_up: int = within(0, low=0)
    lowest: float = within(0.0, low=0, high=1)

    def factor(self, step: int, steps: int) -> float:
        """See `Schedule.factor`."""
        if step < self.warm_up:
            return warming(step, self.warm_up)
        part = min(1.0, (step - self.warm_up) / max(1, steps - self.warm_up))
        return self.lowest + (1 - self.lowest) * 0.5 * (1 + cos(pi * part))


@dataclass(frozen=True)
class StepSchedule:
    """Multiplied by `gamma` every `every` steps, after a linear warm-up."""

    every: int = within(low=1)
    gamma: float = within(0.1, low=0, high=1)
    warm_up: int = within(0, low=0)

    def factor(self, step: int, steps: int) -> float:
        """See `Schedule.factor`."""
        return float(warming(step, self.warm_up) * self.gamma**(step // self.every))


def warming(step: int, steps: int) -> float:
    """1 / steps, 2 / steps ... up to 1."""
    return min(1.0, (step + 1) / steps) if steps else 1.0


SCHEDULES: Mapping[str, type[Schedule]] = {"constant": ConstantSchedule, "cosine": Cosine, "step": StepSchedule}
