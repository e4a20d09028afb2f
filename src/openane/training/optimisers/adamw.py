"""AdamW: Adam with weights that decay by themselves, not through the gradient (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from openane.configuration import within
from openane.training.optimisers.adam import Adam


@dataclass(frozen=True)
class AdamW(Adam):
    """Each step first multiplies the weight by 1 - rate * weight_decay."""

    weight_decay: float = within(0.01, low=0)

    def update(self, weight: np.ndarray, gradient: np.ndarray, slots: Mapping[str, np.ndarray], step: int,
               rate: float) -> None:
        """See `Optimiser.update`."""
        weight *= np.float32(1 - rate * self.weight_decay)
        self.step_without_decay(weight, gradient, slots, step, rate)
