"""What a training knows between two steps: weights, the optimiser's memory, the loss scale, how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openane.errors import FormatError
from openane.training.checkpoint import Checkpoint
from openane.training.optimisers import Optimiser
from openane.training.scaling import LossScale

Arrays = dict[str, np.ndarray]


@dataclass
class State:
    """`weights` and `slots` (by weight, by slot) are fp32 and change in place. `step` counts batches, `updates` those
    that moved the weights; `epoch_loss` and `epoch_steps` are of the epoch so far, `losses` of those before."""

    weights: Arrays
    slots: dict[str, Arrays]
    scale: LossScale
    step: int = 0
    updates: int = 0
    epoch_loss: float = 0.0
    epoch_steps: int = 0
    losses: list[float] = field(default_factory=list)

    @staticmethod
    def fresh(weights: Mapping[str, np.ndarray], optimiser: Optimiser, scale: float) -> State:
        """Before the first step."""
        copied = {name: np.array(array, np.float32) for name, array in weights.items()}
        return State(copied, {name: {slot: np.zeros_like(array) for slot in optimiser.slots}
                              for name, array in copied.items()}, LossScale(scale))

    def checkpoint(self, meaning: Mapping[str, Any]) -> Checkpoint:
        """The state as it is written; `meaning` says of which training."""
        slots = {f"{name}/{slot}": array for name, each in self.slots.items() for slot, array in each.items()}
        said = {"updates": self.updates, "scale": self.scale.scale, "steady": self.scale.steady,
                "epoch_loss": self.epoch_loss, "epoch_steps": self.epoch_steps, "losses": self.losses,
                "settings": meaning}
        return Checkpoint(self.step, self.weights, slots, said)

    def restore(self, checkpoint: Checkpoint, meaning: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint. FormatError where it is one of another training, with what differs."""
        said = checkpoint.state
        try:
            _same(said["settings"], meaning)
            scale = LossScale(float(said["scale"]), int(said["steady"]))
            self.updates, self.epoch_steps = int(said["updates"]), int(said["epoch_steps"])
            self.epoch_loss, self.losses = float(said["epoch_loss"]), [float(loss) for loss in said["losses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the checkpoint of step {checkpoint.step} lacks part of its state: {error!r}") from None
        self.scale, self.step = scale, checkpoint.step
        _take(self.weights, checkpoint.weights)
        for name, slots in self.slots.items():
            _take(slots, {slot: checkpoint.slots[f"{name}/{slot}"] for slot in slots
                          if f"{name}/{slot}" in checkpoint.slots})


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
