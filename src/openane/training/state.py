"""What a training knows between two steps: weights, the optimiser's memory, the loss scale, how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from openane.errors import FormatError
from openane.training.checkpoint import Checkpoint
from openane.training.journal import json_value
from openane.training.optimisers import Optimiser
from openane.training.scaling import HIGHEST, LOWEST, LossScale

Arrays = dict[str, np.ndarray]
MOST = 1 << 53
"""Steps a training may have: whole numbers that JSON carries everywhere."""
COUNTS = ("updates", "epoch_steps", "epoch_skipped", "skipped", "row")


@dataclass
class TrainingState:
    """`weights` and `slots` (by weight, by slot) are fp32 and change in place.

    Of the `steps` batches that are planned `step` are done; `updates` counts those that moved the weights, `skipped`
    those that did not, `row` how many of them were the last ones. `epoch_loss` is the sum of the losses of the epoch so
    far and `epoch_steps` how many steps had a finite one, `epoch_skipped` how many were skipped. `losses` are the means
    of the epochs before: infinite where no step had a finite loss.
    """

    weights: Arrays
    slots: dict[str, Arrays]
    scale: LossScale
    steps: int = 0
    step: int = 0
    updates: int = 0
    skipped: int = 0
    row: int = 0
    epoch_loss: float = 0.0
    epoch_steps: int = 0
    epoch_skipped: int = 0
    losses: list[float] = field(default_factory=list)

    @staticmethod
    def fresh(weights: Mapping[str, np.ndarray], optimiser: Optimiser, scale: float, steps: int) -> TrainingState:
        """Before the first of so many steps."""
        copied = {name: np.array(array, np.float32) for name, array in weights.items()}
        return TrainingState(copied, {name: {slot: np.zeros_like(array) for slot in optimiser.slots}
                                      for name, array in copied.items()}, LossScale(scale), steps)

    def counted(self, loss: float, fault: str) -> None:
        """One more step, which had this loss and was skipped where there is a `fault`."""
        self.step += 1
        self.updates += not fault
        self.skipped += bool(fault)
        self.row = self.row + 1 if fault else 0
        self.epoch_skipped += bool(fault)
        if isfinite(loss):
            self.epoch_loss += loss
            self.epoch_steps += 1

    def epoch_ended(self, steps: int) -> dict[str, Any]:
        """Closes an epoch of so many steps: its mean loss, how many steps were skipped, and how many had no finite loss
        and are not in the mean."""
        self.losses.append(self.epoch_loss / self.epoch_steps if self.epoch_steps else inf)
        said = {"loss": self.losses[-1], "skipped": self.epoch_skipped, "without_loss": steps - self.epoch_steps}
        self.epoch_loss, self.epoch_steps, self.epoch_skipped = 0.0, 0, 0
        return said

    def checkpoint(self, meaning: Mapping[str, Any]) -> Checkpoint:
        """The state as it is written; `meaning` says of which training."""
        slots = {f"{name}/{slot}": array for name, each in self.slots.items() for slot, array in each.items()}
        said = {**{name: getattr(self, name) for name in COUNTS}, "scale": self.scale.scale,
                "steady": self.scale.steady, "epoch_loss": self.epoch_loss, "steps": self.steps,
                "losses": [json_value(loss) for loss in self.losses], "settings": meaning}
        return Checkpoint(self.step, self.weights, slots, said)

    def restore(self, checkpoint: Checkpoint, meaning: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint. FormatError where it is one of another training, with what differs, or where its
        state is none a training can have."""
        said = checkpoint.state
        try:
            if not isinstance(said["settings"], Mapping):
                raise TypeError("settings is no table")
            _same(said["settings"], meaning)
            step = _count(checkpoint.step, "step")
            counts = {name: _count(said[name], name) for name in COUNTS}
            if not counts["row"] <= counts["skipped"] <= step or counts["updates"] + counts["skipped"] != step:
                raise ValueError(f"counts of steps that do not fit each other: {counts} of {step}")
            scale = LossScale(_real(said["scale"], "scale", LOWEST, HIGHEST), _count(said["steady"], "steady"))
            epoch_loss = _real(said["epoch_loss"], "epoch_loss", -inf, inf)
            _count(said["steps"], "steps")
            losses = [_real(float(loss), "losses", -inf, inf, infinite=True) for loss in said["losses"]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"the checkpoint of step {checkpoint.step} lacks part of its state: {error!r}") from None
        _take(self.weights, checkpoint.weights)
        for name, slots in self.slots.items():
            _take(slots, {slot: checkpoint.slots[f"{name}/{slot}"] for slot in slots
                          if f"{name}/{slot}" in checkpoint.slots})
        self.scale, self.step, self.epoch_loss, self.losses = scale, step, epoch_loss, losses
        for name, count in counts.items():
            setattr(self, name, count)


def _count(given: object, name: str) -> int:
    """A whole number of 0 or more. ValueError."""
    if type(given) is not int or not 0 <= given <= MOST:
        raise ValueError(f"{name} must be a whole number of 0 or more, not {str(given)[:40]}")
    return given


def _real(given: object, name: str, low: float, high: float, infinite: bool = False) -> float:
    """A number between two, finite unless `infinite`. ValueError."""
    if type(given) not in (int, float):
        raise ValueError(f"{name} must be a number, not {str(given)[:40]}")
    number = float(given)  # type: ignore[arg-type]
    if isnan(number) or not (infinite or isfinite(number)) or not low <= number <= high:
        raise ValueError(f"{name} must be a number between {low:g} and {high:g}, not {number:g}")
    return number


def _take(mine: Arrays, kept: Mapping[str, np.ndarray]) -> None:
    """Copies arrays of the same names, shapes and element type. FormatError when they are not those."""
    for name, array in mine.items():
        found = kept.get(name)
        if found is None or found.shape != array.shape or found.dtype != array.dtype:
            raise FormatError(f"the checkpoint is one of another model: {name!r}",
                              expected=f"{array.dtype} {list(array.shape)}",
                              found="none" if found is None else f"{found.dtype} {list(found.shape)}")
    for name, array in mine.items():
        array[...] = kept[name]


def _same(kept: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    flat, mine = _flat(kept), _flat(now)
    differ = [key for key in sorted({*flat, *mine}) if flat.get(key) != mine.get(key)]
    if differ:
        texts = ", ".join(f"{key} was {flat.get(key, 'not stated')!r} and is {mine.get(key, 'not stated')!r}"
                          for key in differ[:4])
        raise FormatError(f"the checkpoint is one of another configuration: {texts}\nhint: resume with the file it was "
                          "started with, or give another --output")


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name}.{key}": value for name, part in table.items()
            for key, value in (part.items() if isinstance(part, Mapping) else [("", part)])}
