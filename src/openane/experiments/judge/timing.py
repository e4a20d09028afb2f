"""Parameters of the timing model fitted to attested times, by chip and by the way to its engine.

Every file of a machine is fitted by itself: the clocks, bandwidths and call time with which the model comes nearest to
all of its runs, by least squares of the logarithms of times. What its runs do not tell is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import exp, hypot, inf, log
from statistics import median

import numpy as np

from openane.chips.attested import UNITS
from openane.devices.other_engine import engine_seconds, state_of
from openane.errors import AneError
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.outcome import Ending
from openane.experiments.programs import program_digest, program_of
from openane.experiments.record import Kind
from openane.experiments.shelf import experiments, find_experiment
from openane.simulator.variation import RATES, Variation
from openane.timing import SubmissionRoute, dispatch, rates

SIZES = {"GHz": 1e9, "GB/s": 1e9, "us": 1e-6}
LOOSE = 1.0
"""Logarithm of the factor by which a parameter may be away from the tables before anything is run; it only keeps those
in place that the runs do not tell."""
TOLD = 0.25
"""A parameter whose logarithm is less sure than this is not told."""
LEAST = 0.01
"""Runs scatter at least by this, as a logarithm: the finest that clocks of hosts tell."""
STEPS, STEP = 20, 0.01
APART = 4.0
"""Machines contradict each other when they are this many times their scatter apart."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A parameter of one machine. `value` is in the unit of `UNITS`, `scatter` one standard deviation as a factor,
    `factor` what the value is of the table's."""

    file: str
    chip: str
    route: str
    name: str
    value: float
    factor: float
    scatter: float
    runs: int

    @property
    def owner(self) -> str:
        """The chip, and the way to its engine."""
        return f"{self.chip}, {self.route}"

    def __str__(self) -> str:
        return (f"{self.owner}: {self.name} {self.value:.4g} {UNITS[self.name]}, {self.factor:.3g} of what is "
                f"modelled, within a factor of {self.scatter:.3g} ({self.runs} runs)")


def fitted(evidence: EvidenceFile) -> tuple[Fitted, ...]:
    """The parameters that the timed runs of a file tell; none where it has no such runs that can be judged here."""
    try:
        route = SubmissionRoute(evidence.head["route"])
        rate = rates(evidence.chip, state_of(route))
        runs = tuple(_runs(evidence))
    except (ValueError, AneError):
        return ()
    if not runs or rate.generation != evidence.generation:
        return ()
    logs, sure = _solved(runs, evidence.generation, evidence.chip, route)
    usual = {name: getattr(rate, name).value or 0.0 for name in RATES if name != "dispatch"}
    usual["dispatch"] = dispatch(rate.chip, route).value or 0.0
    count = sum(len(logs) for _, _, logs in runs)
    return tuple(Fitted(evidence.identity, evidence.chip, str(route), name,
                        factor * usual[name] / SIZES[UNITS[name]], factor, scatter, count)
                 for name, factor, scatter in zip(RATES, map(exp, logs), map(exp, sure), strict=True)
                 if log(scatter) < TOLD and usual[name])


Timed = tuple[str, str, tuple[float, ...]]
"""An experiment, a trial of it, and the logarithms of the seconds that its runs took."""
Solution = tuple[tuple[float, ...], tuple[float, ...]]


def _runs(evidence: EvidenceFile) -> Iterator[Timed]:
    trials = {(each.name, trial.name): (each, trial) for each in experiments() if each.kind is Kind.TIMES
              for trial in each.trials}
    for shown in evidence.trials:
        name = shown.experiment, shown.trial
        logs = tuple(log(run.seconds) for run in shown.runs if run.ending is Ending.DONE and run.seconds > 0)
        if name in trials and logs and shown.program == program_digest(*trials[name], evidence.generation):
            yield *name, logs


@lru_cache(maxsize=256)
def _solved(runs: tuple[Timed, ...], generation: str, chip: str, route: SubmissionRoute) -> Solution:
    """Logarithms of the factors of `RATES`, and one standard deviation of each: Gauss and Newton's steps, of which one
    that makes things worse is halved."""
    done = [program_of(find_experiment(name).trial(trial), generation).operations for name, trial, _ in runs]
    times = [logs for _, _, logs in runs]
    seen = np.array([median(logs) for logs in times])
    weight = np.sqrt([len(logs) for logs in times])

    def modelled(logs: np.ndarray) -> np.ndarray:
        variation = Variation(rates=tuple(zip(RATES, map(float, np.exp(logs)), strict=True)))
        return np.array([log(engine_seconds(operations, chip, route, variation)) for operations in done])

    def missed(logs: np.ndarray) -> float:
        return float(np.sum((weight * (seen - modelled(logs)) / LEAST) ** 2) + np.sum((logs / LOOSE) ** 2))

    def slopes(logs: np.ndarray) -> np.ndarray:
        here = modelled(logs)
        return np.stack([(modelled(logs + STEP * unit) - here) / STEP for unit in np.eye(len(RATES))], axis=1)

    found, worst, move = np.zeros(len(RATES)), inf, np.zeros(len(RATES))
    for _ in range(STEPS):
        tried = np.clip(found + move, -6, 6)
        now = missed(tried)
        if now > worst:
            move /= 2
            continue
        improved, found, worst = worst - now, tried, now
        if improved < 1e-3 * worst + 1e-6:
            break
        rows = weight[:, None] * slopes(found) / LEAST
        left = weight * (seen - modelled(found)) / LEAST
        move = np.linalg.solve(rows.T @ rows + np.eye(len(RATES)) / LOOSE ** 2, rows.T @ left - found / LOOSE ** 2)
    scatter = _scatter(times, modelled(found))
    rows = weight[:, None] * slopes(found) / scatter
    sure = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows + np.eye(len(RATES)) / LOOSE ** 2)))
    return tuple(map(float, found)), tuple(map(float, sure))


def _scatter(times: Sequence[tuple[float, ...]], modelled: np.ndarray) -> float:
    """How far runs are from the fit, as a logarithm."""
    away = [value - float(wanted) for logs, wanted in zip(times, modelled, strict=True) for value in logs]
    free = max(len(away) - len(RATES), 1)
    return max(LEAST, float(np.sqrt(sum(value ** 2 for value in away) / free)))


def apart(values: Sequence[float], scatters: Sequence[float]) -> bool:
    """Whether machines contradict each other: two values further apart than their scatters allow."""
    logs, widths = [log(value) for value in values], [max(log(scatter), LEAST) for scatter in scatters]
    return any(abs(logs[i] - logs[j]) > APART * hypot(widths[i], widths[j])
               for i in range(len(logs)) for j in range(i))


__all__ = ["Fitted", "apart", "fitted"]
