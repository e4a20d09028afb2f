"""Attests an experiment on a simulated engine of which a hypothesis is true, and judges the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from openane.chips import get_chip
from openane.experiments import Experiment, Hypothesis, Trial
from openane.experiments.attest.journal import AttestJournal
from openane.experiments.attest.route import Place, TrialRunner, find_place
from openane.experiments.attest.session import attest, head_of, plan
from openane.experiments.evidence_file import EvidenceFile, read_evidence, write_evidence
from openane.experiments.judge.odds import Verdict, verdicts
from openane.experiments.programs import model_of
from openane.program import Program
from openane.simulator.variation import parse_variation

NOISE = "noise 0.05;fail 0.1"
"""Times scatter by a twentieth, and one run in ten fails."""


HANG = 2
"""Seconds after which a run of the macOS stand-in counts as hung."""


def linux(engine: str, noise: str = NOISE, seed: int = 0) -> str:
    return f"linux?driver=simulated&engine={quote(f'{engine};{noise};seed {seed}')}"


def macos(engine: str, chip: str, noise: str = NOISE, seed: int = 0) -> str:
    """One that hangs is in a process of its own, which can be ended."""
    inject = f"engine={engine};{noise};seed {seed},chip={chip}"
    place = f"timeout={HANG}" if "hang" in engine else "worker=off"
    return f"macos?runtime=simulated&route=precompiled&{place}&inject={quote(inject)}"


def attested(place: Place, experiment: Experiment, folder: Path) -> EvidenceFile:
    """The file of an experiment, begun again after every hang."""
    steps, journal = plan(place, [experiment]).steps, folder / "journal"
    journal.unlink(missing_ok=True)
    while any(each.stop for each in attest(place, steps, journal, lambda: TrialRunner(place), pause=0)):
        pass
    head = head_of(place, steps)
    with AttestJournal(journal, head) as kept:
        return read_evidence(write_evidence(head, list(kept.results().values())))


def verdict(device: str, experiment: Experiment, folder: Path, chip: str = "") -> Verdict:
    (found,) = verdicts(attested(find_place(device, chip), experiment, folder))
    return found


def stated(trial: Trial, hypothesis: Hypothesis, generation: str) -> Program:
    """What Apple's compiler would make of a trial if the hypothesis were true: our program, whose last task states what
    it says. A task before it cannot grow."""
    (program,) = model_of(trial, generation).programs
    *others, last = program.tasks
    words = parse_variation(hypothesis.engine).fields(last.words, get_chip(generation))
    return replace(program, tasks=(*others, replace(last, words=words)))


def pairs(experiments: tuple[Experiment, ...]) -> list[tuple[Experiment, Hypothesis]]:
    return [(experiment, hypothesis) for experiment in experiments for hypothesis in experiment.hypotheses]
