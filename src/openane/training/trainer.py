"""The training itself: batches in a fixed order, gradients from the engine, master weights in fp32 on the host.

Gradients come as fp16. They are added up in fp64, in which sums of fp16 numbers are exact, over the portions of a batch
and over the ranks: how a batch is split changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import AneError, BudgetExhausted, FormatError
from openane.training import checkpoint
from openane.training.clipping import clip
from openane.training.computing import Computing, Portion
from openane.training.data import Split, batches, order
from openane.training.parallel import Alone, Group
from openane.training.scaling import LOWEST, overflowed
from openane.training.settings import Settings
from openane.training.state import State

Event = dict[str, Any]
FOLDER = "checkpoints"


@dataclass(frozen=True, slots=True)
class Plan:
    """How the examples are gone through: `portions` per rank and step, of `micro` examples each."""

    batch: int
    micro: int
    portions: int
    per_epoch: int
    steps: int


def planned(settings: Settings, count: int, ranks: int) -> Plan:
    """The plan for so many examples and ranks. FormatError when portions do not fill a batch."""
    run = settings.training
    micro = run.micro_batch or max(1, run.batch // ranks)
    if run.batch % (micro * ranks):
        raise FormatError(f"training.batch {run.batch} must be a multiple of {micro} examples at a time (micro_batch) "
                          f"times {ranks} ranks")
    per_epoch = count // run.batch
    if not per_epoch:
        raise FormatError(f"training.batch {run.batch} is more than the {count} examples to learn from")
    steps = per_epoch * run.epochs
    return Plan(run.batch, micro, run.batch // (micro * ranks), per_epoch, min(steps, run.steps or steps))


class Training:
    """One training. Use it in a `with` statement; `run` gives events as plain data while it goes on. `meaning` is what
    a checkpoint must have in common with it: the settings that matter, and a digest of the data."""

    def __init__(self, settings: Settings, output: Path | None = None, group: Group | None = None) -> None:
        """Reads the data and compiles the network. Without `output` no checkpoints are written. AneError where
        anything of the configuration cannot be had."""
        self.settings, self.group, self.output = settings, group or Alone(), output
        self.split: Split = settings.data.load(settings.base)
        meaning = settings.meaning()
        self.meaning = meaning | {"data": {**meaning.get("data", {}), "digest": self.split.digest()}}
        self.plan = planned(settings, len(self.split.training), self.group.size)
        self.computing = Computing(settings, self.split, self.plan.micro, self.group.rank)
        self.state = State.fresh(self.computing.weights, settings.optimiser, settings.scaling.initial)
        self.notes: list[str] = []
        self._fresh = True
        self._started, self._reopened, self._saved = 0, -1, -1

    def resume(self) -> bool:
        """Goes on from the last whole checkpoint; False where there is none. FormatError when it is of another
        training."""
        assert self.output is not None, "checkpoints are in the output folder"
        if self.group.rank == 0:
            checkpoint.tidy(self.output / FOLDER)
        self.group.share(None)
        found, self.notes = checkpoint.latest(self.output / FOLDER)
        if found is not None:
            self.state.restore(found, self.meaning)
            self._fresh, self._started, self._saved = True, found.step, found.step
        steps = self.group.share(self.state.step)
        if len(set(steps)) > 1:
            raise FormatError(f"the ranks found checkpoints of different steps {steps}: they do not share "
                              f"{self.output}")
        return found is not None

    @property
    def progressed(self) -> bool:
        """Whether steps were made since the start or the checkpoint it began with."""
        return self.state.step > self._started

    def run(self) -> Iterator[Event]:
        """Trains to the end. Every step is an event, every epoch, every restart of the device, and the end."""
        yield {"event": "start", "step": self.state.step, "steps": self.plan.steps,
               "epochs": self.settings.training.epochs, "ranks": self.group.size,
               "weights": sum(weight.size for weight in self.state.weights.values()),
               "device": self.computing.device_name, **self.computing.placement(), "notes": list(self.notes)}
        while self.state.step < self.plan.steps:
            try:
                yield self._step()
            except BudgetExhausted as error:
                self._reopen(error)
                yield {"event": "restart", "step": self.state.step, "reason": str(error)}
                continue
            if self.state.step % self.settings.checkpoints.every == 0:
                self.save()
            if self.state.step % self.plan.per_epoch == 0:
                yield self._epoch_ended()
        self.save()
        yield {"event": "end", "step": self.state.step, "updates": self.state.updates, "losses": self.state.losses,
               **self.computing.placement(), **self._judged()}

    def save(self) -> None:
        """Writes a checkpoint of this step where there is none yet: rank 0 does."""
        if self.output is not None and self.group.rank == 0 and self._saved != self.state.step:
            checkpoint.save(self.output / FOLDER, self.state.checkpoint(self.meaning),
                            self.settings.checkpoints.keep)
            self._saved = self.state.step

    def close(self) -> None:
        """Gives the device back."""
        self.computing.close()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()

    def evaluate(self) -> dict[str, float]:
        """The test examples' loss and accuracy: `validation_loss` for tokens, else `test_accuracy` and `test_loss`."""
        self._send()
        sums = np.zeros(3)
        for number, (numbers, real) in enumerate(batches(len(self.split.test), self.plan.micro)):
            if number % self.group.size == self.group.rank:
                sums += self.computing.judged(Portion(*self.split.test.take(numbers), real))
        loss, right, rows = np.sum(self.group.share(sums), axis=0)
        accuracy = float(right / rows)
        if self.split.tokens:
            return {"validation_loss": float(loss / rows), "validation_accuracy": accuracy}
        return {"test_accuracy": accuracy, "test_loss": float(loss / rows)}

    def _send(self) -> None:
        """The weights to the device, where it does not have them yet."""
        if self._fresh:
            self.computing.set(self.state.weights)
            self._fresh = False

    def _step(self) -> Event:
        """One batch: gradients, and the update unless they overflow."""
        start, state, settings = time.perf_counter(), self.state, self.settings
        self._send()
        epoch, place = divmod(state.step, self.plan.per_epoch)
        loss, gradients, engine = self._gradients(epoch, place)
        computed = time.perf_counter()
        overflow = overflowed(gradients.values()) or not np.isfinite(loss)
        if overflow and state.scale.lowest:
            raise AneError(f"step {state.step + 1}: gradients are infinite or not numbers even at the lowest loss "
                           f"scale, {LOWEST:g}: the training has diverged\nhint: a lower optimiser.rate, a longer "
                           "schedule.warm_up or training.clip; checkpoints before it are kept")
        rate = settings.optimiser.rate * settings.schedule.factor(state.step, self.plan.steps)
        scale, norm = state.scale, 0.0
        if not overflow:
            norm = clip(gradients, settings.training.clip)
            state.updates += 1
            for name, weight in state.weights.items():
                settings.optimiser.update(weight, gradients[name], state.slots[name], state.updates, rate)
            self._fresh = True
        state.scale = scale.after(overflow, settings.scaling)
        state.step += 1
        if np.isfinite(loss):
            state.epoch_loss += loss
            state.epoch_steps += 1
        if state.step % self.plan.per_epoch == 0:
            state.losses.append(state.epoch_loss / max(1, state.epoch_steps))
            state.epoch_loss, state.epoch_steps = 0.0, 0
        seconds = time.perf_counter() - start
        return {"event": "step", "step": state.step, "epoch": epoch, "loss": loss, "rate": rate, "norm": norm,
                "scale": scale.scale, "skipped": overflow, "seconds": seconds, "computing": computed - start,
                "engine_share": engine / seconds}

    def _gradients(self, epoch: int, place: int) -> tuple[float, dict[str, np.ndarray], float]:
        """The mean loss of a batch, its gradients in fp32, and the seconds the device executed here."""
        numbers = order(self.settings.training.seed, epoch, len(self.split.training))
        first = place * self.plan.batch + self.group.rank * self.plan.portions * self.plan.micro
        sums: dict[str, np.ndarray] = {name: np.zeros(array.shape) for name, array in self.state.weights.items()}
        sums["/loss"] = np.zeros(2)
        seconds, rows = 0.0, self.computing.rows // self.plan.micro * self.plan.batch
        share = self.computing.share(self.state.scale.scale, rows)
        for portion in range(self.plan.portions):
            start = first + portion * self.plan.micro
            inputs, labels = self.split.training.take(numbers[start:start + self.plan.micro])
            made = self.computing.gradients(Portion(inputs, labels, len(inputs)), share)
            sums["/loss"] += made.loss, labels.size
            for name, array in made.gradients.items():
                sums[name] += array
            seconds += made.seconds
        total = self.group.sum(sums)
        loss, count = total.pop("/loss")
        with np.errstate(over="ignore", invalid="ignore"):
            return float(loss / count), {name: (array / (float(share) * rows)).astype(np.float32)
                                         for name, array in total.items()}, seconds

    def _epoch_ended(self) -> Event:
        state, every = self.state, self.settings.training.evaluate
        event: Event = {"event": "epoch", "step": state.step, "epoch": len(state.losses), "loss": state.losses[-1]}
        if every and len(state.losses) % every == 0 and state.step < self.plan.steps:
            event |= self._judged()
        return event

    def _judged(self) -> dict[str, float]:
        """`evaluate`, with the device opened anew where it has no room for another program."""
        try:
            return self.evaluate()
        except BudgetExhausted as error:
            self._reopen(error)
            return self.evaluate()

    def _reopen(self, error: BudgetExhausted) -> None:
        """A checkpoint, and the device anew. The error itself when that has not led to another step."""
        self.save()
        if self.group.size > 1 or not self.progressed or self._reopened == self.state.step:
            raise error
        self._reopened = self.state.step
        self.computing.reopen()
        self._fresh = True


