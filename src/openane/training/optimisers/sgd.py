"""Stochastic gradient descent with momentum, and with Nesterov's look ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from openane.configuration import within


@dataclass(frozen=True)
class Sgd:
    """velocity = momentum * velocity + gradient; weight -= rate * velocity. `weight_decay` is added to the gradient
    times the weight."""

    slots: ClassVar[tuple[str, ...]] = ("velocity",)
    rate: float = within(0.01, low=0)
    momentum: float = within(0.9, low=0, high=1)
    nesterov: bool = False
    weight_decay: float = within(0.0, low=0)

    def update(self, weight: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], step: int,
               rate: float) -> None:
        """See `Optimiser.update`."""
        if self.weight_decay:
            gradient = gradient + np.float32(self.weight_decay) * weight
        velocity = slots["velocity"]
        velocity *= np.float32(self.momentum)
        velocity += gradient
        if self.nesterov:
            weight -= np.float32(rate) * (gradient + np.float32(self.momentum) * velocity)
        else:
            weight -= np.float32(rate) * velocity
