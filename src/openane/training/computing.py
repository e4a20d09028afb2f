"""The graphs of a training on a device: gradients of a portion of a batch, and how good its scores are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openane.devices import DEFAULT, VARIABLE, open_device
from openane.devices.protocol import Device
from openane.training.data import Split
from openane.training.networks.network import INPUT, SCORES
from openane.training.objective import GRADIENT, batch_inputs, cross_entropy, objective
from openane.training.runners import Runner, open_runner
from openane.training.scaling import overflowed
from openane.training.settings import REFERENCE, TrainingSettings
from openane.training.watching import WATCH

LEAST, LARGEST = float(np.finfo(np.float16).smallest_subnormal), float(np.finfo(np.float16).max)


@dataclass(frozen=True, slots=True)
class Portion:
    """Examples that are computed at once; the first `real` of them count."""

    inputs: np.ndarray
    labels: np.ndarray
    real: int


@dataclass(frozen=True, slots=True)
class Computed:
    """The sum of the rows' losses, the gradients of the loss times its scale as the device gave them, and the seconds
    it executed; whether a watched gradient was infinite, and how many infinities the device says it stored."""

    loss: float
    gradients: Mapping[str, np.ndarray]
    seconds: float
    watched: bool
    infinities: int | None


class Computing:
    """Holds the device, the step and the forward graph. The first weights are `weights`, `rows` is how many rows of
    scores a portion has, `digest` that of the network's file."""

    def __init__(self, settings: TrainingSettings, split: Split, micro: int, rank: int) -> None:
        self._settings, self._split, self._micro = settings, split, micro
        self.device_name = settings.engine.device.replace("{rank}", str(rank)) or os.environ.get(VARIABLE) or DEFAULT
        inputs, labels = split.training.take(np.arange(1))
        shape = (micro, *inputs.shape[1:], *((split.classes,) if split.tokens else ()))
        rng = np.random.default_rng(settings.training.seed)
        network = settings.model.build(shape, split.classes, rng, settings.base)
        self.weights, self.fixed, self.rows = network.weights, network.fixed, micro * labels.size
        self.digest = network.digest
        self.fp16 = self.device_name != REFERENCE
        self._objective = objective(network, settings.scaling.watch if self.fp16 else "none")
        self._device: Device | None = None
        self._step: Runner | None = None
        self._forward: Runner | None = None
        self._current: Mapping[str, np.ndarray] = network.weights
        self._set: set[str] = set()
        try:
            self.reopen()
        except BaseException:
            self.close()
            raise

    def reopen(self) -> None:
        """Opens the device anew and loads the graph of a step; the forward graph when it is asked for."""
        self.close()
        if self.fp16:
            self._device = open_device(self.device_name)
        self._step = self._runner(joint=True)

    def close(self) -> None:
        """Gives everything back."""
        self._set.clear()
        runners, self._step, self._forward = (self._step, self._forward), None, None
        device, self._device = self._device, None
        try:
            for runner in runners:
                if runner is not None:
                    runner.close()
        finally:
            if device is not None:
                device.close()

    def placement(self) -> dict[str, Any]:
        """The route that was used, and where the operations of a step run: plain data for an event."""
        assert self._step is not None
        where = self._step.placement
        return {"route": self._step.route, "engine_operations": where.engine, "tasks": where.tasks,
                "host_operations": [{"operation": name, "reason": reason} for name, reason in where.host.items()]}

    def share(self, scale: float, rows: int) -> np.float16:
        """Each row's importance for a loss scale: fp16, so that what gradients are divided by is what they were
        multiplied by. At least the least number fp16 has, at most the largest."""
        return np.float16(min(max(scale / rows, LEAST), LARGEST))

    def set(self, weights: Mapping[str, np.ndarray]) -> None:
        """The weights of the runs that follow."""
        self._current = weights
        self._set.clear()

    def gradients(self, portion: Portion, share: np.float16) -> Computed:
        """One portion forward and backward."""
        runner = self._ready(joint=True)
        found = runner.run(self._inputs(portion, share))
        loss = float(cross_entropy(found[SCORES], portion.labels.reshape(-1)).sum())
        made = {name: found[GRADIENT + name] for name in self.weights}
        extremes = found.get(WATCH)
        watched = extremes is not None and overflowed([extremes])
        return Computed(loss, made, runner.engine_seconds, watched, runner.infinities)

    def judged(self, portion: Portion) -> np.ndarray:
        """Sum of losses, right answers and rows of a portion's real examples: fp64 [3]."""
        found = self._ready(joint=False).run({INPUT: self._inputs(portion, np.float16(1))[INPUT]})[SCORES]
        labels = portion.labels[:portion.real].reshape(-1)
        scores = found[:labels.size]
        return np.array([cross_entropy(scores, labels).sum(), (scores.argmax(1) == labels).sum(), labels.size])

    def _inputs(self, portion: Portion, share: np.float16) -> dict[str, np.ndarray]:
        return batch_inputs(portion.inputs, portion.labels, self._split.classes, self._split.tokens, portion.real,
                            float(share))

    def _ready(self, joint: bool) -> Runner:
        """A runner with the current weights."""
        if not joint and self._forward is None:
            self._forward = self._runner(joint=False)
        runner = self._step if joint else self._forward
        assert runner is not None
        name = "joint" if joint else "forward"
        if name not in self._set:
            runner.set(self._current)
            self._set.add(name)
        return runner

    def _runner(self, joint: bool) -> Runner:
        engine, made = self._settings.engine, self._objective
        return open_runner(engine.route, made.joint if joint else made.forward, made.weights, self._device,
                           engine.target, engine.allow_host)
