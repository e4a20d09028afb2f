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

from openane.errors import BudgetExhausted, FormatError
from openane.training import checkpoint
from openane.training.clipping import clip
from openane.training.computing import Computing, Portion
from openane.training.data import Split, batches, order
from openane.training.lock import FolderLock
from openane.training.parallel import Alone, RankGroup
from openane.training.schedules import SCHEDULES
from openane.training.settings import TrainingSettings
from openane.training.state import TrainingState
from openane.training.verdict import Batch, Diverged, check_course, check_weights

Event = dict[str, Any]
FOLDER = "checkpoints"
SCALES = "hint: a lower scaling.initial, or more steps, in which the scale falls by itself (scaling.dynamic)"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How the examples are gone through: `portions` per rank and step, of `micro` examples each."""

    batch: int
    micro: int
    portions: int
    per_epoch: int
    steps: int


def planned(settings: TrainingSettings, count: int, ranks: int) -> BatchPlan:
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
    return BatchPlan(run.batch, micro, run.batch // (micro * ranks), per_epoch, min(steps, run.steps or steps))


class Training:
    """One training. Use it in a `with` statement; `run` gives events as plain data while it goes on. `meaning` is what
    a checkpoint must have in common with it: the settings that matter, and digests of the data and of the network's
    file."""

    def __init__(self, settings: TrainingSettings, output: Path | None = None, group: RankGroup | None = None) -> None:
        """Reads the data and compiles the network. Without `output` no checkpoints are written. AneError where
        anything of the configuration cannot be had, FolderInUse where another training has the output folder."""
        self.settings, self.group, self.output = settings, group or Alone(), output
        self._lock = FolderLock(output) if output is not None and self.group.rank == 0 else None
        try:
            self._prepare(settings)
        except BaseException:
            self._unlock()
            raise

    def _prepare(self, settings: TrainingSettings) -> None:
        """Everything that the first step needs."""
        self.split: Split = settings.data.load(settings.base)
        self.plan = planned(settings, len(self.split.training), self.group.size)
        self.computing = Computing(settings, self.split, self.plan.micro, self.group.rank)
        meaning = settings.meaning()
        self.meaning = meaning | {"data": {**meaning["data"], "digest": self.split.digest()},
                                  "model": {**meaning["model"], "digest": self.computing.digest}}
        self.state = TrainingState.fresh(self.computing.weights, settings.optimiser, settings.scaling.initial,
                                         self.plan.steps)
        self.notes = [] if self._lock is None or self._lock.held else [
            f"{self.output} cannot be locked on its file system: nothing keeps a second training out"]
        self._fresh = True
        self._ended: Event = {}
        self._started, self._reopened, self._saved = 0, -1, -1

    def resume(self) -> bool:
        """Goes on from the last whole checkpoint; False where there is none. FormatError when it is of another
        training."""
        assert self.output is not None, "checkpoints are in the output folder"
        if self.group.rank == 0:
            checkpoint.tidy(self.output / FOLDER)
        self.group.share(None)
        found, refused = checkpoint.latest(self.output / FOLDER)
        self.notes += [f"passed over: {reason}" for reason in refused]
        if found is None:
            self.notes.append(f"there is no checkpoint in {self.output}: it starts from the beginning")
        else:
            self.take(found)
        steps = self.group.share(self.state.step)
        if len(set(steps)) > 1:
            raise FormatError(f"the ranks found checkpoints of different steps {steps}: they do not share "
                              f"{self.output}")
        return found is not None

    def take(self, found: checkpoint.Checkpoint) -> None:
        """Goes on from this checkpoint, with a note where the training is to be longer or less long than it was to.
        FormatError when it is of another training, has passed its end, or is none a training can have written."""
        before = (found.step // self.plan.per_epoch, self.plan.per_epoch)
        self.state.restore(found, self.meaning)
        if len(self.state.losses) != before[0] or self.state.epoch_steps > before[1]:
            raise FormatError(f"the checkpoint of step {found.step} does not fit epochs of {before[1]} steps",
                              expected=f"{before[0]} mean losses", found=len(self.state.losses))
        if found.step > self.plan.steps:
            raise FormatError(f"the checkpoint is one of step {found.step}, and training.epochs and training.steps ask "
                              f"for {self.plan.steps}: more of them, or another --output")
        if (planned := found.state["steps"]) != self.plan.steps:
            kind = next(name for name, made in SCHEDULES.items() if type(self.settings.schedule) is made)
            self.notes.append(f"it was to have {planned} steps and has {self.plan.steps} now: from here on the "
                              f"schedule ({kind}) is that of {self.plan.steps} steps")
        self._fresh, self._started, self._saved = True, found.step, found.step

    @property
    def progressed(self) -> bool:
        """Whether steps were made since the start or the checkpoint it began with."""
        return self.state.step > self._started

    def run(self) -> Iterator[Event]:
        """Trains to the end. Every step is an event, every epoch, every restart of the device, and the end."""
        yield {"event": "start", "step": self.state.step, "steps": self.plan.steps,
               "epochs": self.settings.training.epochs, "ranks": self.group.size,
               "weights": sum(weight.size for weight in self.state.weights.values()),
               "trained": list(self.state.weights), "not_trained": list(self.computing.fixed),
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
        if not self.state.updates:
            raise Diverged(self.state.step, "every step was skipped: no weight has moved, nothing was learnt", SCALES)
        judged = self._judged()
        if not np.isfinite(list(judged.values())).all():
            raise Diverged(self.state.step, "the loss of the test examples is not finite: the training has diverged")
        yield {"event": "end", "step": self.state.step, "updates": self.state.updates, "skipped": self.state.skipped,
               "losses": list(self.state.losses), **self.computing.placement(), **judged}

    def save(self) -> None:
        """Writes a checkpoint of this step where there is none yet: rank 0 does."""
        if self.output is not None and self.group.rank == 0 and self._saved != self.state.step:
            checkpoint.save(self.output / FOLDER, self.state.checkpoint(self.meaning),
                            self.settings.checkpoints.keep)
            self._saved = self.state.step

    def close(self) -> None:
        """Gives the device and the folder back."""
        try:
            self.computing.close()
        finally:
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()

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
        batch = self._gradients(epoch, place)
        computed = time.perf_counter()
        fault, loss = batch.fault, batch.loss
        check_course(state.step + 1, fault, loss, state.row + 1, state.scale, settings.scaling)
        rate = settings.optimiser.rate * settings.schedule.factor(state.step, self.plan.steps)
        scale, norm = state.scale, 0.0
        if not fault:
            norm = clip(batch.gradients, settings.training.clip)
            with np.errstate(over="ignore", invalid="ignore"):  # check_weights tells of what becomes infinite
                for name, weight in state.weights.items():
                    settings.optimiser.update(weight, batch.gradients[name], state.slots[name], state.updates + 1, rate)
            check_weights(state.step + 1, state.weights, self.computing.fp16)
            self._fresh = True
        state.scale = scale.after(bool(fault), settings.scaling)
        state.counted(loss, fault)
        self._ended = state.epoch_ended(self.plan.per_epoch) if state.step % self.plan.per_epoch == 0 else {}
        seconds = time.perf_counter() - start
        return {"event": "step", "step": state.step, "epoch": epoch, "loss": loss, "rate": rate, "norm": norm,
                "scale": scale.scale, "skipped": bool(fault), "reason": fault, "infinities": batch.infinities or 0,
                "seconds": seconds, "computing": computed - start, "engine_share": batch.seconds / seconds}

    def _gradients(self, epoch: int, place: int) -> Batch:
        """A batch forward and backward, on all ranks."""
        numbers = order(self.settings.training.seed, epoch, len(self.split.training))
        first = place * self.plan.batch + self.group.rank * self.plan.portions * self.plan.micro
        sums: dict[str, np.ndarray] = {name: np.zeros(array.shape) for name, array in self.state.weights.items()}
        sums["/loss"] = np.zeros(5)
        seconds, rows = 0.0, self.computing.rows // self.plan.micro * self.plan.batch
        share = self.computing.share(self.state.scale.scale, rows)
        for portion in range(self.plan.portions):
            start = first + portion * self.plan.micro
            inputs, labels = self.split.training.take(numbers[start:start + self.plan.micro])
            made = self.computing.gradients(Portion(inputs, labels, len(inputs)), share)
            sums["/loss"] += (made.loss, labels.size, made.watched, made.infinities or 0, made.infinities is None)
            for name, array in made.gradients.items():
                sums[name] += array
            seconds += made.seconds
        total = self.group.sum(sums)
        loss, count, watched, infinities, uncounted = total.pop("/loss")
        with np.errstate(over="ignore", invalid="ignore"):
            gradients = {name: (array / (float(share) * rows)).astype(np.float32) for name, array in total.items()}
        return Batch(float(loss / count), gradients, seconds, bool(watched), None if uncounted else int(infinities),
                     self.computing.fp16)

    def _epoch_ended(self) -> Event:
        state, every = self.state, self.settings.training.evaluate
        event: Event = {"event": "epoch", "step": state.step, "epoch": len(state.losses), **self._ended}
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


