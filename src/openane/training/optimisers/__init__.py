"""Optimisers: how fp32 master weights move along fp32 gradients.

Each is a dataclass of its settings. `slots` names what it remembers per weight; `update` moves one weight in place.
The formulas are those of the PyTorch optimisers of the same names, evaluated in fp32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from openane.training.optimisers.adam import Adam
from openane.training.optimisers.adamw import AdamW
from openane.training.optimisers.sgd import Sgd

Slots = Mapping[str, np.ndarray]


class Optimiser(Protocol):
    """See the module."""

    @property
    def rate(self) -> float:
        """The learning rate before the schedule's factor."""
        ...

    @property
    def slots(self) -> Sequence[str]:
        """Names of what is remembered per weight: fp32 arrays of its shape, zeros before the first step."""
        ...

    def update(self, weight: np.ndarray, gradient: np.ndarray, slots: Slots, step: int, rate: float) -> None:
        """Moves `weight` and changes `slots`, all fp32 of one shape, in place. `step` counts updates from 1."""
        ...


OPTIMISERS: Mapping[str, type[Optimiser]] = {"sgd": Sgd, "adam": Adam, "adamw": AdamW}

__all__ = ["OPTIMISERS", "Adam", "AdamW", "Optimiser", "Sgd", "Slots"]
