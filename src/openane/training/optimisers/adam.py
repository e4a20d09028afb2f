"""Adam: steps scaled by running means of the gradient and of its square (Kingma and Ba, 2015)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from openane.configuration import within

LEAST = 1.2e-38
"""The least epsilon: fp32's least number in full precision. With 0 a weight without any gradient would become NaN."""


@dataclass(frozen=True)
class Adam:
    """`weight_decay` is added to the gradient times the weight; see AdamW for the decoupled form."""

    slots: ClassVar[tuple[str, ...]] = ("mean", "square")
    rate: float = within(1e-3, low=0)
    beta1: float = within(0.9, low=0, high=0.999999)
    beta2: float = within(0.999, low=0, high=0.999999)
    epsilon: float = within(1e-8, low=LEAST)
    weight_decay: float = within(0.0, low=0)

    def update(self, weight: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], step: int,
               rate: float) -> None:
        """See `Optimiser.update`."""
        if self.weight_decay:
            gradient = gradient + np.float32(self.weight_decay) * weight
        self.step_without_decay(weight, gradient, slots, step, rate)

    def step_without_decay(self, weight: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], step: int,
                           rate: float) -> None:
        """The step without any decay of the weight."""
        mean, square = slots["mean"], slots["square"]
        mean += np.float32(1 - self.beta1) * (gradient - mean)
        square *= np.float32(self.beta2)
        square += np.float32(1 - self.beta2) * gradient * gradient
        size = np.sqrt(square)
        size /= np.float32(sqrt(1 - self.beta2**step))
        size += np.float32(max(self.epsilon, LEAST))
        weight -= np.float32(rate / (1 - self.beta1**step)) * (mean / size)
