"""Runs a plan of experiments, trial by trial, with a journal: goes on where it stopped, and stops where it must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Protocol

from openane.devices.other_engine import engine_seconds
from openane.devices.packer import logical_shape
from openane.errors import AneError, DeviceHung
from openane.experiments.attest.journal import AttestJournal
from openane.experiments.attest.route import MOST, Place
from openane.experiments.outcome import Ending, Run, Shown
from openane.experiments.programs import decoys, program_digest, program_of
from openane.experiments.record import Experiment, Kind, Risk, Trial
from openane.experiments.shelf import library_digest

HEAD_BYTES, TRIAL_BYTES, RUN_BYTES = 2500, 400, 250
"""Bytes at most of a file's first and last line, and of what a trial and a run say beside outputs."""
MOST_STATED = 1 << 12
"""Bytes at most of what Apple's compiler states in the fields of one trial."""
AGAIN = 1
"""How often a trial of a known form is begun again that was under way when everything ended."""


class RunsTrials(Protocol):
    """Whatever runs trials: this process, or one of its own that can be ended."""

    def run_trial(self, experiment: Experiment, trial: Trial) -> Shown:
        """Runs a trial. DeviceHung when it did not come back."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial of the plan: the engine's seconds by the timing model, and the bytes that it adds to the file, both when
    it takes as many runs as a trial may and every run gives other outputs."""

    experiment: Experiment
    trial: Trial
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be run, and what will not with the reason."""

    steps: tuple[PlannedTrial, ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def seconds(self) -> float:
        """Of the engine at most, by the timing model."""
        return sum(step.seconds for step in self.steps)

    @property
    def bytes(self) -> int:
        """Of the file at most."""
        return HEAD_BYTES + sum(step.bytes for step in self.steps)


def plan(place: Place, chosen: Sequence[Experiment], new: bool = True) -> Plan:
    """The trials of experiments that a place can carry; without `new` only those of known forms."""
    steps: list[PlannedTrial] = []
    left: list[tuple[str, str]] = []
    for experiment in chosen:
        why = _why_not(place, experiment, new)
        try:
            made = [] if why else [_planned(place, experiment, trial) for trial in experiment.trials]
        except AneError as error:
            why, made = str(error).splitlines()[0], []
        steps += made
        if why:
            left.append((experiment.name, why))
    return Plan(tuple(steps), tuple(left))


def _why_not(place: Place, experiment: Experiment, new: bool) -> str:
    if experiment.kind not in place.kinds():
        return "needs Apple's compiler" if experiment.kind is Kind.WORDS else "needs an engine"
    if place.generation not in experiment.asked_of:
        return f"asks {', '.join(experiment.asked_of)}"
    return "" if new or experiment.risk is Risk.SAFE else "its form was never seen"


def _planned(place: Place, experiment: Experiment, trial: Trial) -> PlannedTrial:
    verified = program_of(trial, place.generation)
    if experiment.kind is Kind.WORDS:
        return PlannedTrial(experiment, trial, 0.0, packed_bytes(MOST_STATED))
    before = decoys(verified.program) if experiment.kind is Kind.VALUES else 0
    seconds = MOST * (1 + before) * engine_seconds(verified.operations, place.chip, place.route)
    content = 0 if experiment.kind is Kind.TIMES else sum(
        prod(logical_shape(buffer.layout)) * buffer.layout.dtype.size
        for buffer in verified.program.outputs if buffer.layout is not None)
    return PlannedTrial(experiment, trial, seconds, packed_bytes(content))


def packed_bytes(content: int) -> int:
    """Bytes of a trial's line at most: its names, and as many outputs of `content` bytes as it has runs, none of which
    can be compressed, in base 64."""
    return TRIAL_BYTES + MOST * (RUN_BYTES + (content + content // 1000 + 64) * 4 // 3)


def head_of(place: Place, steps: Sequence[PlannedTrial]) -> dict[str, object]:
    """What a journal and a file begin with."""
    return {"about": place.about, "generation": place.generation, "chip": place.chip, "route": str(place.route),
            "library": library_digest(), "trials": len(steps)}


@dataclass(frozen=True, slots=True)
class Progress:
    """One step: how it ended, or that it was done before."""

    number: int
    step: PlannedTrial
    ending: str
    stop: bool = False


def attest(place: Place, steps: Sequence[PlannedTrial], path: Path, runner: Callable[[], RunsTrials],
           pause: float = 1.0) -> Iterator[Progress]:
    """Runs what the journal at `path` does not have yet. The last progress says `stop` after a hang: the engine may be
    stuck, and nothing else is run before somebody has started this again."""
    made: RunsTrials | None = None
    with AttestJournal(path, head_of(place, steps)) as journal:
        try:
            for number, step in enumerate(steps):
                name = step.experiment.name, step.trial.name
                if name in journal.results() or _given_up(place, journal, step):
                    yield Progress(number, step, "done before")
                    continue
                if step.experiment.risk is Risk.NEW and number:
                    time.sleep(pause)
                made = made or runner()
                journal.begun(*name)
                shown = _ran(made, place, step)
                journal.ended(shown)
                last = shown.runs[-1].ending
                lost = last in (Ending.HUNG, Ending.CRASHED)
                if lost:
                    made.close()
                    made = None
                yield Progress(number, step, str(last), last is Ending.HUNG)
                if last is Ending.HUNG:
                    return
        finally:
            if made is not None:
                made.close()


def _given_up(place: Place, journal: AttestJournal, step: PlannedTrial) -> bool:
    """Whether a trial was under way when everything ended and is not to be begun again."""
    name = step.experiment.name, step.trial.name
    allowed = AGAIN if step.experiment.risk is Risk.SAFE else 0
    if journal.unfinished(*name) <= allowed:
        return False
    journal.give_up(*name, program_digest(step.experiment, step.trial, place.generation))
    return True


def _ran(runner: RunsTrials, place: Place, step: PlannedTrial) -> Shown:
    try:
        return runner.run_trial(step.experiment, step.trial)
    except DeviceHung:
        ending = Ending.HUNG
    except AneError:
        ending = Ending.CRASHED
    return Shown(step.experiment.name, step.trial.name,
                 program_digest(step.experiment, step.trial, place.generation), (Run(ending),), {})


__all__ = ["Plan", "PlannedTrial", "Progress", "RunsTrials", "attest", "head_of", "plan"]
