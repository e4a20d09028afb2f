"""What accepted evidence proves, and the change to the project that a new file asks for.

`chips/attested.json` lists, for every fact that an experiment moved, the files that say so: for each the digest, the
experiment and the hypothesis. `chips/attested_times.json` lists what parameters of the timing model are by which file.
Nothing here changes them: a change is prepared as a patch, which somebody reads.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from openane.chips.attested import ATTESTED, TIMES, UNITS, AttestedTime, attested, attested_times
from openane.experiments.attest.route import SIMULATED
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.facts import Fact, open_facts
from openane.experiments.judge.odds import NONE, Verdict, verdicts
from openane.experiments.judge.timing import Fitted, apart, fitted
from openane.experiments.programs import NOT_STATED, default_of, program_of, words_content
from openane.experiments.record import Experiment, Kind
from openane.experiments.shelf import experiments
from openane.simulator.variation import STANDARD

PLACE = "src/openane/chips"
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
    """Where files of one generation disagree, and of one chip about a parameter of the timing model; files by their
    identity."""
    yield from _of_hypotheses(judged)
    for (owner, name), several in sorted(by_parameter([evidence for evidence, _ in judged.values()]).items()):
        if apart([each.value for each in several], [each.scatter for each in several]):
            yield Contradiction(f"{owner} {name}", tuple((each.file, f"{each.value:.4g} {UNITS[name]}")
                                                         for each in several))


def _of_hypotheses(judged: Mapping[str, tuple[EvidenceFile, Sequence[Verdict]]]) -> Iterator[Contradiction]:
    named: dict[tuple[str, str], dict[str, str]] = {}
    for identity, (evidence, found) in judged.items():
        for verdict in found:
            if verdict.named:
                named.setdefault((evidence.generation, verdict.experiment), {})[identity] = verdict.named
    for (generation, experiment), said in sorted(named.items()):
        if len(set(said.values())) > 1:
            yield Contradiction(f"{generation} {experiment}", tuple(said.items()))


def by_parameter(files: Sequence[EvidenceFile]) -> dict[tuple[str, str], list[Fitted]]:
    """What files tell of the parameters of the timing model, by owner and name."""
    found: dict[tuple[str, str], list[Fitted]] = {}
    for evidence in files:
        for each in fitted(evidence):
            found.setdefault((each.owner, each.name), []).append(each)
    return found


def facts_decided(evidence: EvidenceFile, found: Sequence[Verdict]) -> dict[str, dict[str, str]]:
    """The facts of the file's engine on which it has a say: by fact the file, the experiment and the hypothesis."""
    known = {each.name: each for each in experiments()}
    facts: dict[str, dict[str, str]] = {}
    for verdict in found:
        if not verdict.named or verdict.named == NONE:
            continue
        experiment = known[verdict.experiment]
        for fact in _decided(experiment):
            if fact.owner in (evidence.generation, evidence.chip, "all"):
                level = _level(experiment, verdict.named, fact.name, evidence.generation)
                if level:
                    facts[fact.name] = {"file": evidence.identity, "experiment": experiment.name,
                                        "hypothesis": verdict.named, "level": level}
    return facts


@lru_cache(maxsize=256)
def _decided(experiment: Experiment) -> tuple[Fact, ...]:
    return tuple(fact for fact in open_facts() if any(fnmatchcase(fact.name, each) for each in experiment.decides))


@lru_cache(maxsize=4096)
def _level(experiment: Experiment, hypothesis: str, fact: str, generation: str) -> str:
    """What a fact is then: proved by running, seen in Apple's programs, or not as the tables have it. A sentence about
    many forms is proved in part. Of a field that Apple's compiler leaves at its default nothing but that is known, and
    one that our program leaves there was not tried: empty."""
    if not experiment.hypothesis(hypothesis).believed:
        return "refuted"
    kind, _, name = fact.split("/", 2)
    if kind == "inferred":
        return "proved in part"
    if kind == "field" and not _in_use(experiment, name, generation):
        return "left alone" if experiment.kind is Kind.WORDS else ""
    return "seen" if experiment.kind is Kind.WORDS else "proved"


def _in_use(experiment: Experiment, name: str, generation: str) -> bool:
    """Whether a trial's program has another value in a field than the field has by default."""
    block, register, field = name.split(".")
    unused = {NOT_STATED, default_of(generation, block, register, field)}
    patterns = (name, f"{block}.{register}[[]*].{field}")
    programs = [program_of(trial, generation).program for trial in experiment.trials]
    return any(not set(values) <= unused for program in programs
               for values in json.loads(words_content(program, patterns, STANDARD)).values())


def prepared(files: Sequence[EvidenceFile], simulated: bool = False) -> str:
    """The change that files ask for, as a patch for `git apply`; empty where they ask for none. Files that contradict
    each other, or what was accepted, change nothing; `simulated` also takes those of engines that are none, to try it.
    """
    before = {name: [dict(each) for each in said] for name, said in attested().items()}
    after = {name: list(said) for name, said in before.items()}
    judged = {each.identity: (each, verdicts(each)) for each in files if simulated or _real(each)}
    disputed = {each.experiment.partition(" ")[2] for each in _of_hypotheses(judged)}
    for evidence, found in judged.values():
        for name, said in facts_decided(evidence, found).items():
            if said["experiment"] not in disputed and _agrees(after.get(name, ()), said):
                after.setdefault(name, []).append(said)
    return _patch(ATTESTED, before, after) + _patch(TIMES, *_times([each for each, _ in judged.values()]))


Times = dict[str, dict[str, list[AttestedTime]]]


def _times(files: Sequence[EvidenceFile]) -> tuple[Times, Times]:
    """The parameters of the timing model that are attested, and those with what files tell: of a parameter about which
    machines contradict each other nothing is added."""
    before: Times = {owner: {name: list(said) for name, said in known.items()}
                     for owner, known in attested_times().items()}
    after: Times = {owner: dict(known) for owner, known in before.items()}
    for (owner, name), several in by_parameter(files).items():
        said = after.get(owner, {}).get(name, [])
        new: list[AttestedTime] = [
            {"file": each.file, "value": _digits(each.value), "scatter": _digits(each.scatter), "runs": each.runs}
            for each in several if each.file not in {old["file"] for old in said}]
        both = said + new
        if new and not apart([each["value"] for each in both], [each["scatter"] for each in both]):
            after.setdefault(owner, {})[name] = both
    return before, after


def _digits(value: float) -> float:
    """As many digits as a file is worth."""
    return float(f"{value:.4g}")


def _patch(path: Path, before: object, after: object) -> str:
    if after == before:
        return ""
    old, new = path.read_text(), json.dumps(after, indent=1, sort_keys=True) + "\n"
    place = f"{PLACE}/{path.name}"
    return "".join(difflib.unified_diff(old.splitlines(True), new.splitlines(True), f"a/{place}", f"b/{place}"))


def _real(evidence: EvidenceFile) -> bool:
    return bool(evidence.head["about"]["engine"] != SIMULATED)


def _agrees(others: Sequence[Mapping[str, str]], said: Mapping[str, str]) -> bool:
    """Whether what a file says of a fact is what others say, and new."""
    return all(each["level"] == said["level"] and each["file"] != said["file"] for each in others)


__all__ = ["KEPT", "PLACE", "Contradiction", "by_parameter", "contradictions", "facts_decided", "prepared"]
