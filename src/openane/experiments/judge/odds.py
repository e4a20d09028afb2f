"""Odds of an experiment's hypotheses, given what a trial showed.

The model of noise, in shares of runs:

    a run ends as it should with the outputs of the truth   0.88
    it fails without a consequence                          0.1
    it gives other outputs (each other one)                 0.01
    it is refused, or the process ends, by chance           0.005 each
    it hangs by chance                                      0.001

Times scatter around the timing model by a factor of 1.1, one standard deviation, however often they are taken; what
runs scatter by themselves is added. Before anything was run all hypotheses are equally likely, and that none of them is
true, so that outputs come which none predicts, is ten times less so. A hypothesis is named when its odds against all
others together are at least 100 to 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median, pstdev

from openane.errors import AneError
from openane.experiments.evidence_file import EvidenceFile
from openane.experiments.outcome import Ending, Run, Shown
from openane.experiments.programs import Expected, expected, program_digest
from openane.experiments.record import Experiment, Hypothesis, Kind
from openane.experiments.shelf import experiments
from openane.timing import SubmissionRoute

RIGHT, FAILED, OTHER, STRANGE, HUNG = 0.88, 0.1, 0.01, 0.005, 0.001
SCATTER = 0.1
NAMED = 100.0
NONE = "none of these"
UNLIKELY = 0.1
"""How much less likely than any hypothesis it is before that none is true."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a file says of an experiment: the probability of every hypothesis, and the one that is named, if one is.
    `why_not` says why nothing could be judged."""

    experiment: str
    odds: Mapping[str, float]
    named: str = ""
    why_not: str = ""

    @property
    def against(self) -> float:
        """Odds of the likeliest against all others together."""
        best = max(self.odds.values(), default=0.0)
        return best / max(1.0 - best, 1e-12)


def verdicts(evidence: EvidenceFile) -> tuple[Verdict, ...]:
    """A verdict for every experiment the file has trials of."""
    shown: dict[str, list[Shown]] = {}
    for each in evidence.trials:
        shown.setdefault(each.experiment, []).append(each)
    known = {each.name: each for each in experiments()}
    return tuple(_judged(known[name], trials, evidence) if name in known
                 else Verdict(name, {}, why_not="no experiment of this version has this name")
                 for name, trials in shown.items())


def _judged(experiment: Experiment, shown: Sequence[Shown], evidence: EvidenceFile) -> Verdict:
    try:
        route = SubmissionRoute(evidence.head["route"])
        for each in shown:
            if each.program != program_digest(experiment, experiment.trial(each.trial), evidence.generation):
                return Verdict(experiment.name, {}, why_not=f"trial {each.trial!r} ran another program than this "
                                                            "version has")
        table = {hypothesis.name: [expected(experiment, experiment.trial(each.trial), hypothesis, evidence.generation,
                                            evidence.chip, route) for each in shown]
                 for hypothesis in experiment.hypotheses}
    except (KeyError, ValueError, AneError) as error:
        return Verdict(experiment.name, {}, why_not=f"it cannot be judged here: {str(error).splitlines()[0]}")
    weights = {hypothesis.name: sum(_likelihood(experiment, hypothesis, each, wanted, _stated(experiment, table, k))
                                    for k, (each, wanted) in enumerate(zip(shown, table[hypothesis.name], strict=True)))
               for hypothesis in experiment.hypotheses}
    weights[NONE] = sum(_unexplained(experiment.kind, each) for each in shown) + log(UNLIKELY)
    return verdict_of(experiment.name, weights)


def verdict_of(name: str, weights: Mapping[str, float]) -> Verdict:
    """A verdict from logarithms of likelihoods."""
    most = max(weights.values())
    raw = {hypothesis: exp(weight - most) for hypothesis, weight in weights.items()}
    odds = {hypothesis: value / sum(raw.values()) for hypothesis, value in raw.items()}
    made = Verdict(name, odds)
    return Verdict(name, odds, max(odds, key=lambda each: odds[each])) if made.against >= NAMED else made


def _stated(experiment: Experiment, table: Mapping[str, Sequence[Expected]], number: int) -> frozenset[str]:
    """The outputs that hypotheses predict of a trial, but for those that stand for all others."""
    return frozenset(table[hypothesis.name][number].digest for hypothesis in experiment.hypotheses
                     if not hypothesis.otherwise)


def _likelihood(experiment: Experiment, hypothesis: Hypothesis, shown: Shown, wanted: Expected,
                stated: frozenset[str]) -> float:
    """The logarithm of what the hypothesis gives the runs of a trial."""
    if experiment.kind is Kind.TIMES and wanted.ending is Ending.DONE:
        return _timed(shown, wanted)
    seen: Counter[str] = Counter()
    total = 0.0
    for run in shown.runs:
        chance = _chance(run, wanted)
        if hypothesis.otherwise and run.ending is Ending.DONE:
            chance = OTHER if run.digest in stated else _new(seen, run)
        seen[run.digest] += 1
        total += log(chance)
    return total


def _chance(run: Run, wanted: Expected) -> float:
    if run.ending is Ending.UNKNOWN:
        return 1.0
    if run.ending is Ending.FAILED:
        return FAILED
    if wanted.ending is Ending.DONE and run.ending is Ending.DONE:
        return RIGHT if run.digest == wanted.digest else OTHER
    if run.ending is wanted.ending:
        return RIGHT
    return HUNG if run.ending is Ending.HUNG else STRANGE


def _new(seen: Counter[str], run: Run) -> float:
    """Outputs that nobody predicts: any may come first, and should come again."""
    return RIGHT / 2 if not seen[run.digest] else RIGHT


def _timed(shown: Shown, wanted: Expected) -> float:
    good = [run.seconds for run in shown.runs if run.ending is Ending.DONE and run.seconds > 0]
    total = sum(log(_chance(run, wanted)) for run in shown.runs if run.ending is not Ending.DONE)
    if not good:
        return total
    logs = [log(seconds) for seconds in good]
    spread = SCATTER ** 2 + pstdev(logs) ** 2 / len(logs)
    return total - (median(logs) - log(wanted.seconds)) ** 2 / (2 * spread)


def _unexplained(kind: Kind, shown: Shown) -> float:
    """What the runs are worth when no hypothesis is true: other outputs than predicted are as they should be."""
    seen: Counter[str] = Counter()
    total = 0.0
    for run in shown.runs:
        if run.ending is Ending.FAILED:
            total += log(FAILED)
        elif run.ending is not Ending.UNKNOWN:
            total += log(0.02 if not seen[run.digest + run.ending] else RIGHT) if kind is not Kind.TIMES else 0.0
        seen[run.digest + run.ending] += 1
    return total - (8.0 if kind is Kind.TIMES else 0.0)


def named(found: Iterable[Verdict]) -> dict[str, str]:
    """The hypothesis that is named, by experiment."""
    return {each.experiment: each.named for each in found if each.named}


__all__ = ["NAMED", "NONE", "Verdict", "named", "verdicts"]
