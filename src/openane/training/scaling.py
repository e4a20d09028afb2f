"""Loss scaling: gradients are computed times a power of two, so that small ones do not vanish in fp16.

When one of them overflows, the step is skipped and the scale halved; after a while without overflow it is doubled. How
an overflow is noticed is said in training.verdict and training.watching.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from openane.configuration import within
from openane.training.watching import LEVELS

LOWEST, HIGHEST = 2.0**-14, 2.0**24


@dataclass(frozen=True)
class Scaling:
    """Settings of the loss scale; `dynamic` false keeps it as it is."""

    initial: float = within(1024.0, low=LOWEST, high=HIGHEST)
    dynamic: bool = True
    every: int = within(200, low=1)
    """Steps without overflow before the scale is doubled."""
    largest: float = within(32768.0, low=1, high=HIGHEST)
    watch: str = within("all", choices=LEVELS)
    """Which gradients inside the backward pass are watched for infinities; see training.watching."""


@dataclass(frozen=True, slots=True)
class LossScale:
    """The scale now, and the steps since it last changed."""

    scale: float
    steady: int = 0

    @property
    def lowest(self) -> bool:
        """Whether there is no lower one."""
        return self.scale <= LOWEST

    def after(self, overflow: bool, settings: Scaling) -> LossScale:
        """The scale for the next step."""
        if not settings.dynamic:
            return self
        if overflow:
            return LossScale(max(self.scale / 2, LOWEST))
        if self.steady + 1 < settings.every:
            return replace(self, steady=self.steady + 1)
        return LossScale(max(self.scale, min(self.scale * 2, settings.largest)))


def overflowed(arrays: Iterable[np.ndarray]) -> bool:
    """Whether an infinity or a NaN is among the numbers."""
    return not all(np.isfinite(array).all() for array in arrays)
