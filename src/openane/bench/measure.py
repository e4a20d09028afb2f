"""Times probes on a device, beside what the timing model says of the chip and what the host's CPU does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from openane.bench.probes import PROBES, Metric, Probe
from openane.chips import compiled_generations, get_chip
from openane.chips.machines import Known, own_target
from openane.compiler import Model, ProgramStep, compile
from openane.compiler.states import reference
from openane.devices import Device
from openane.errors import AneError
from openane.graph import Graph, numpy_type
from openane.timing import SubmissionRoute, dispatch, operations_of, rates, schedule

ENOUGH, MOST, LEAST = 0.3, 200, 3
"""Seconds a probe is repeated for, and its runs at most and at least."""
MICRO = 1e6


@dataclass(frozen=True, slots=True)
class Measured:
    """A probe's figures in its metric's unit; None where there is none. `device` was measured on the device (the
    simulator's own speed, where that is the device), `modelled` is the timing model's for the chip and `known` what
    that is (`modelled` or `extrapolated`), `host` numpy's on this machine. `error` says why a probe could not run."""

    probe: Probe
    device: float | None
    modelled: float | None
    host: float | None
    runs: int = 0
    error: str = ""
    known: str = "modelled"


def probe_all(device: Device, chip: str, route: SubmissionRoute = SubmissionRoute.MACOS, full: bool = False,
              chosen: Sequence[str] = (), target: str | None = None) -> Iterator[Measured]:
    """Every probe in turn (`chosen`: only those of these groups), compiled for `target`, by default as `target_of`.
    UnsupportedError for a chip nobody knows."""
    rates(chip)
    for probe in selected(full, chosen):
        yield measure(probe, device, chip, route, target)


def target_of(device: Device, chip: str) -> str:
    """The generation that probes are compiled for: the device's, else that of the modelled chip. UnsupportedError for
    a chip nobody knows."""
    return device.info.chip if device.info.chip in compiled_generations() else own_target(chip)


def selected(full: bool, chosen: Sequence[str]) -> list[Probe]:
    """The probes of a run."""
    return [probe for probe in PROBES if (full or probe.quick) and (not chosen or probe.group in chosen)]


def measure(probe: Probe, device: Device, chip: str, route: SubmissionRoute, target: str | None = None) -> Measured:
    """One probe. What the device refuses is its `error`."""
    graphs, target = probe.graphs(), target or target_of(device, chip)
    try:
        models = [compile(graph, target=target) for graph in graphs]
        seconds, runs = _on_device(device, models, probe.joined)
    except AneError as error:
        return Measured(probe, None, None, None, error=str(error).splitlines()[0])
    return Measured(probe, _figure(probe, seconds), _figure(probe, modelled_seconds(models, chip, route, probe.joined)),
                    _figure(probe, _on_host(graphs)), runs, known=surety(chip, route, target))


def modelled_seconds(models: Sequence[Model], chip: str, route: SubmissionRoute, joined: bool = False) -> float:
    """What the timing model says: engine and a call for every program."""
    rate = rates(chip)
    busy = [schedule(operations_of(model.programs[step.program], shared=True), rate).seconds
            for model in models for step in engine_steps(model)]
    return sum(seconds + (dispatch(rate.chip, route, seconds).value or 0.0) for seconds in busy)


def surety(chip: str, route: SubmissionRoute, target: str | None = None) -> str:
    """What a modelled figure is: `modelled`, or `extrapolated` where rates or the call of the chip are guessed or the
    programs were planned for another generation than the chip's."""
    rate = rates(chip)
    guessed = rate.guessed or dispatch(rate.chip, route).known is Known.GUESS
    planned = get_chip(target or own_target(chip)).name
    return "extrapolated" if guessed or rate.generation != planned else "modelled"


def engine_steps(model: Model) -> list[ProgramStep]:
    """A model's steps on the engine."""
    return [step for step in model.steps if isinstance(step, ProgramStep)]


def _on_device(device: Device, models: Sequence[Model], joined: bool) -> tuple[float, int]:
    """Median seconds of a run, and the runs."""
    inputs = _inputs(models[0])
    if joined:
        with device.pipeline(models) as pipeline:
            return _repeated(lambda: pipeline.run(inputs))
    loaded = [device.load(model) for model in models]
    try:
        def once() -> None:
            known: Mapping[str, np.ndarray] = inputs
            for executable in loaded:
                known = executable.run(known)
        return _repeated(once)
    finally:
        for executable in loaded:
            executable.close()


def _on_host(graphs: Sequence[Graph]) -> float:
    """The reference numerics in numpy, in fp32: a floor for what the CPU could do."""
    def once() -> None:
        known: Mapping[str, np.ndarray] = inputs
        for graph in graphs:
            known = reference(graph, known)
    inputs = {value.name: np.random.default_rng(0).standard_normal(value.shape).astype(numpy_type(value.dtype))
              for value in graphs[0].inputs}
    return _repeated(once)[0]


def _repeated(run: Callable[[], object]) -> tuple[float, int]:
    run()
    times: list[float] = []
    while len(times) < LEAST or (sum(times) < ENOUGH and len(times) < MOST):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times), len(times)


def _inputs(model: Model) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    return {port.name: draw.standard_normal(port.shape).astype(numpy_type(port.dtype)) for port in model.inputs}


def _figure(probe: Probe, seconds: float) -> float:
    if probe.metric is Metric.TIME:
        return seconds * MICRO
    return probe.amount / seconds / (1e12 if probe.metric is Metric.RATE else 1e9)
