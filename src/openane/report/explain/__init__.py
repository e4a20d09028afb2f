"""What costs most in a model on a chip, and what would help: each with the time it would save, at most.

A rule looks at the tasks of one operation of the model together and proposes changes to them; the gain is the
difference to the changed program, timed by the same model. So a gain never leaves out what takes its place, gains of
one remedy are timed together, and what all advice saves at once is said beside the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from openane.chips import get_chip
from openane.report.explain import memory, neural, planar
from openane.report.explain.context import AdviceContext
from openane.report.explain.layers import ProfiledLayer, ProfiledLayers
from openane.report.explain.model import Advice, Explanation, Finding, Reason, Rest
from openane.report.explain.retiming import Retiming
from openane.report.explain.whole import calls
from openane.report.profile import Profile
from openane.timing import EnginePart

__all__ = ["RULES", "Advice", "Explanation", "Finding", "Reason", "Rest", "explain"]

LEAST = 0.005
"""Of the time of an inference: advice that saves less is left out."""
SHARE = 1e-4
"""Of the gain of a piece of advice: reasons that save less are left out."""

Name = TypeVar("Name", bound=str)
Rule = Callable[[ProfiledLayer, AdviceContext], Finding | None]

RULES: Sequence[Rule] = (
    memory.only_movement, memory.laid_out_anew, memory.short_rows, memory.beyond_l2, memory.without_room,
    neural.incomplete_pass, neural.waits_for_weights, neural.parts_of_products, neural.table_alone,
    planar.gains_of_their_own, planar.norms_over_channels, planar.gains_as_convolution)
"""Each about one operation of the model; `planar.functions_in_steps` is about several."""


def explain(profile: Profile, hazards: Iterable[tuple[str, str, str]] = ()) -> Explanation:
    """Advice for a profile, the largest gain first; `hazards` are (operation, what, remedy) about precision."""
    layers, retiming = ProfiledLayers(profile), Retiming(profile)
    limits = get_chip(profile.subject.target).limits
    context = AdviceContext(layers, retiming, limits.l2_size, limits)
    found = _findings(layers, context)
    groups = list(_worth_saying(found, profile, retiming))
    advice = [_advice(findings, gain, profile, retiming) for findings, gain in groups]
    whole = list(calls(profile))
    told: dict[str, list[Reason]] = {}
    for operation, what, remedy in hazards:
        told.setdefault(remedy, []).append(Reason(operation, what))
    warnings = [Advice(remedy, tuple(reasons), None, profile.engine_kind) for remedy, reasons in told.items()]
    together = retiming.saved(finding for findings, _ in groups for finding in findings)
    ordered = sorted([*whole, *advice], key=lambda each: -(each.gain or 0.0))
    return Explanation((*ordered, *warnings), together + sum(each.gain or 0.0 for each in whole),
                       _rest(layers, [finding for findings, _ in groups for finding in findings]), profile.time_kind)


def _findings(layers: ProfiledLayers, context: AdviceContext) -> list[Finding]:
    """What all rules say. What one says only of tasks of a function in steps is not said again."""
    functions = list(planar.functions_in_steps(context))
    covered = {place for finding in functions for place in finding.changes}
    found = [finding for layer in layers for rule in RULES if (finding := rule(layer, context)) is not None]
    return [*functions, *(finding for finding in found if not covered.issuperset(finding.changes))]


def _worth_saying(found: Iterable[Finding], profile: Profile,
                  retiming: Retiming) -> Iterator[tuple[list[Finding], float]]:
    """Findings with one remedy together, and their gain; those that hardly save anything left out."""
    groups: dict[str, list[Finding]] = {}
    for finding in found:
        groups.setdefault(finding.remedy, []).append(finding)
    for findings in groups.values():
        gain = retiming.saved(findings)
        if gain >= LEAST * profile.seconds:
            yield findings, gain


def _advice(findings: Sequence[Finding], gain: float, profile: Profile, retiming: Retiming) -> Advice:
    reasons = [Reason(finding.subject, finding.what, retiming.saved([finding])) for finding in findings]
    reasons = [reason for reason in reasons if reason.gain and reason.gain > gain * SHARE]
    reasons.sort(key=lambda reason: -(reason.gain or 0.0))
    return Advice(findings[0].remedy, tuple(reasons), gain, profile.engine_kind)


def _rest(layers: ProfiledLayers, findings: Iterable[Finding]) -> Rest:
    """Tasks that no advice is about."""
    helped = {place for finding in findings for place in finding.changes}
    parts: dict[EnginePart, float] = {}
    kinds: dict[str, float] = {}
    for layer in layers:
        for task in layer.tasks:
            if task.place not in helped:
                seconds, bound = task.row.seconds, task.row.bound
                parts[bound] = parts.get(bound, 0.0) + seconds
                name = layer.kind or task.row.operation
                kinds[name] = kinds.get(name, 0.0) + seconds
    return Rest(sum(parts.values()), _longest_first(parts), _longest_first(kinds))


def _longest_first(seconds: dict[Name, float]) -> dict[Name, float]:
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
