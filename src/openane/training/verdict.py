"""Whether what came back of a batch may move the weights.

Gradients that left fp16 come back as infinities, or as zeros where infinities met on the way (training.watching); a
loss that is no number, weights that fp16 does not hold and gradients that are nothing but zeros are no basis for a step
either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from openane.errors import AneError
from openane.training.scaling import LOWEST, LossScale, Scaling, overflowed

LARGEST, WIDEST = float(np.finfo(np.float16).max), float(np.finfo(np.float32).max)
PATIENCE = 16
"""Steps in a row that may be skipped where no lower scale is going to help."""
LEARNT = 0.05
"""A mean loss below which gradients may honestly round to zeros: every answer is nearly certain."""
REMEDY = "hint: a lower optimiser.rate, a longer schedule.warm_up or training.clip; checkpoints before it are kept"


class Diverged(AneError):
    """A training that cannot go on: `step` is the one it has come to."""

    def __init__(self, step: int, reason: str, remedy: str = REMEDY) -> None:
        self.step = step
        super().__init__(f"step {step}: {reason}\n{remedy}")


@dataclass(frozen=True, slots=True)
class Batch:
    """What was computed of a batch on all ranks: mean loss, gradients in fp32, the seconds the device executed here;
    whether a watched gradient was infinite, and how many infinities the devices say they stored (None: they do not
    count). `fp16`: an engine computed it."""

    loss: float
    gradients: Mapping[str, np.ndarray]
    seconds: float
    watched: bool
    infinities: int | None
    fp16: bool

    @property
    def fault(self) -> str:
        """Why no weight may move, or an empty text."""
        if not np.isfinite(self.loss):
            return "the loss is not finite"
        if overflowed(self.gradients.values()):
            return "a gradient left fp16"
        if self.watched:
            return "a gradient left fp16 on the way"
        if self.fp16 and self._nothing:
            return "every gradient is zero"
        return ""

    @property
    def _nothing(self) -> bool:
        """Whether gradients are zeros that stand for infinities: where a device counts those there are some, elsewhere
        the loss says that there is something to learn."""
        told = self.infinities > 0 if self.infinities is not None else self.loss > LEARNT
        return told and not any(array.any() for array in self.gradients.values())


def check_course(step: int, fault: str, loss: float, row: int, scale: LossScale, settings: Scaling) -> None:
    """Diverged where skipping step number `step` leads nowhere: `row` steps in a row were skipped with it, and the loss
    scale, the one it was computed with, stays or is not what is wrong."""
    if fault and scale.lowest:
        raise Diverged(step, f"{fault} even at the lowest loss scale, {LOWEST:g}: the training has diverged")
    if not fault or row < PATIENCE:
        return
    if not np.isfinite(loss):
        raise Diverged(step, f"the loss of {row} steps in a row is not finite: the training has diverged")
    if not settings.dynamic:
        raise Diverged(step, f"{row} steps in a row were skipped, the last because {fault}, and the loss scale is "
                       f"fixed at {scale.scale:g}", "hint: scaling.dynamic = true, a lower scaling.initial, a lower "
                       "optimiser.rate or training.clip; checkpoints before it are kept")


def check_weights(step: int, weights: Mapping[str, np.ndarray], fp16: bool) -> None:
    """Diverged where fp16, in which an engine sees weights, does not hold one of them, or one is not finite."""
    most, kind = (LARGEST, "fp16, in which the engine sees it,") if fp16 else (WIDEST, "fp32")
    for name, array in weights.items():
        extremes = (float(array.min(initial=0)), float(array.max(initial=0)))
        largest = max(extremes, key=abs)
        if not abs(largest) <= most:
            raise Diverged(step, f"weight {name!r} has come to {largest:g}, and {kind} ends at {most:g}: the "
                           "training has diverged")
