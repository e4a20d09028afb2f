"""What accepted evidence proves, and the change to the project that a new file asks for.

`chips/attested.json` lists, for every fact that an experiment moved, the files that say so: for each the digest, the
experiment and the hypothesis. Nothing here changes it: a change is prepared as a patch, which somebody reads.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import exp, log
from statistics import mean, median, pstdev

from openane.chips.attested import ATTESTED, attested
from openane.experiments.attest.route import SIMULATED
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.facts import open_facts
from openane.experiments.judge.odds import NONE, Verdict, verdicts
from openane.experiments.outcome import Ending
from openane.experiments.programs import NOT_STATED, default_of, expected, program_of, words_content
from openane.experiments.record import Experiment, Kind
from openane.experiments.shelf import experiments
from openane.simulator.variation import STANDARD
from openane.timing import SubmissionRoute

PLACE = "src/openane/chips/attested.json"
KEPT = "evidence"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Files of one generation that name different hypotheses of an experiment, or one that names another than believed.
    """

    experiment: str
    said: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{self.experiment}: " + "; ".join(f"{file[:12]} says {hypothesis!r}" for file, hypothesis in self.said)


def contradictions(judged: Mapping[str, tuple[EvidenceFile, Sequence[Verdict]]]) -> Iterator[Contradiction]:
    """Where files of one generation disagree; files by their identity."""
    named: dict[tuple[str, str], dict[str, str]] = {}
    for identity, (evidence, found) in judged.items():
        for verdict in found:
            if verdict.named:
                named.setdefault((evidence.generation, verdict.experiment), {})[identity] = verdict.named
    for (generation, experiment), said in sorted(named.items()):
        if len(set(said.values())) > 1:
            yield Contradiction(f"{generation} {experiment}", tuple(said.items()))


def facts_decided(evidence: EvidenceFile, found: Sequence[Verdict]) -> dict[str, dict[str, str]]:
    """The facts of the file's engine on which it has a say: by fact the file, the experiment and the hypothesis."""
    known = {each.name: each for each in experiments()}
    facts: dict[str, dict[str, str]] = {}
    for verdict in found:
        if not verdict.named or verdict.named == NONE:
            continue
        experiment = known[verdict.experiment]
        for fact in open_facts():
            if fact.owner in (evidence.generation, evidence.chip, "all") and _decided(experiment, fact.name):
                level = _level(experiment, verdict.named, fact.name, evidence)
                if level:
                    facts[fact.name] = {"file": evidence.identity, "experiment": experiment.name,
                                        "hypothesis": verdict.named, "level": level}
    return facts


def _decided(experiment: Experiment, fact: str) -> bool:
    return any(fnmatchcase(fact, pattern) for pattern in experiment.decides)


def _level(experiment: Experiment, hypothesis: str, fact: str, evidence: EvidenceFile) -> str:
    """What a fact is then: proved by running, seen in Apple's programs, or not as the tables have it. A sentence about
    many forms is proved in part. Of a field that Apple's compiler leaves at its default nothing but that is known, and
    one that our program leaves there was not tried: empty."""
    if not experiment.hypothesis(hypothesis).believed:
        return "refuted"
    kind, _, name = fact.split("/", 2)
    if kind == "inferred":
        return "proved in part"
    if kind == "field" and not _in_use(experiment, name, evidence):
        return "left alone" if experiment.kind is Kind.WORDS else ""
    return "seen" if experiment.kind is Kind.WORDS else "proved"


def _in_use(experiment: Experiment, name: str, evidence: EvidenceFile) -> bool:
    """Whether a trial's program has another value in a field than the field has by default."""
    block, register, field = name.split(".")
    unused = {NOT_STATED, default_of(evidence.generation, block, register, field)}
    patterns = (name, f"{block}.{register}[[]*].{field}")
    programs = [program_of(trial, evidence.generation).program for trial in experiment.trials]
    return any(not set(values) <= unused for program in programs
               for values in json.loads(words_content(program, patterns, STANDARD)).values())


def prepared(files: Sequence[EvidenceFile], simulated: bool = False) -> str:
    """The change that files ask for, as a patch for `git apply`; empty where they ask for none. Files that contradict
    each other, or what was accepted, change nothing; `simulated` also takes those of engines that are none, to try it.
    """
    before = {name: [dict(each) for each in said] for name, said in attested().items()}
    after = {name: list(said) for name, said in before.items()}
    judged = {each.identity: (each, verdicts(each)) for each in files if simulated or _real(each)}
    disputed = {each.experiment.partition(" ")[2] for each in contradictions(judged)}
    for evidence, found in judged.values():
        for name, said in facts_decided(evidence, found).items():
            if said["experiment"] not in disputed and _agrees(after.get(name, ()), said):
                after.setdefault(name, []).append(said)
    if after == before:
        return ""
    old, new = ATTESTED.read_text(), json.dumps(after, indent=1, sort_keys=True) + "\n"
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{PLACE}", f"b/{PLACE}"))


def _real(evidence: EvidenceFile) -> bool:
    return bool(evidence.head["about"]["engine"] != SIMULATED)


def _agrees(others: Sequence[Mapping[str, str]], said: Mapping[str, str]) -> bool:
    """Whether what a file says of a fact is what others say, and new."""
    return all(each["level"] == said["level"] and each["file"] != said["file"] for each in others)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A parameter of the timing model on a chip: the factor between what files attest and what is modelled, its scatter
    from file to file and run to run (one standard deviation, as a factor), and how many runs it rests on."""

    chip: str
    experiment: str
    factor: float
    scatter: float
    runs: int

    def __str__(self) -> str:
        return (f"{self.chip} {self.experiment}: {self.factor:.3g} times as long as modelled, "
                f"within a factor of {self.scatter:.3g} ({self.runs} runs)")


def fitted(files: Sequence[EvidenceFile]) -> Iterator[Fitted]:
    """Every experiment about time, by chip."""
    known = {each.name: each for each in experiments() if each.kind is Kind.TIMES}
    logs: dict[tuple[str, str], list[float]] = {}
    for evidence in files:
        route = SubmissionRoute(evidence.head["route"])
        for shown in evidence.trials:
            if shown.experiment not in known:
                continue
            experiment = known[shown.experiment]
            modelled = expected(experiment, experiment.trial(shown.trial), experiment.hypotheses[0],
                                evidence.generation, evidence.chip, route).seconds
            logs.setdefault((evidence.chip, experiment.name), []).extend(
                log(run.seconds / modelled) for run in shown.runs if run.ending is Ending.DONE and run.seconds > 0)
    for (chip, name), values in sorted(logs.items()):
        if values:
            yield Fitted(chip, name, exp(median(values)), exp(pstdev(values, mean(values))), len(values))


__all__ = ["KEPT", "PLACE", "Contradiction", "Fitted", "contradictions", "facts_decided", "fitted", "prepared"]
