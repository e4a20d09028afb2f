"""What costs most in a model on a chip and what would help, each with the time it would save at most.

A gain is what the changed program saves in the same model of time. Hazards of precision are found in the constants and,
where the model is quickly evaluated, on one drawn sample. The comparison with CPU and GPU is rough: their peaks and
what a call costs there are guesses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from openane.chips import get_chip
from openane.cli.hazards import UNSAMPLED, hazards, sampled
from openane.cli.numbers import one_of
from openane.cli.output import say, say_json, table
from openane.cli.profile import subject_of
from openane.cli.subject import open_subject, subject_options
from openane.cli.summary import cache_lines
from openane.ops import all_ops
from openane.report import Profile, profile
from openane.report.explain import Advice, Explanation, Rest, explain
from openane.report.places import RunPlace, places, verdict
from openane.timing import ClockState, EnginePart, SubmissionRoute
from openane.wording import plural

MICRO = 1e6
COSTLIEST, SHOWN = 8, 4
HONEST = {
    EnginePart.MULTIPLY: "the array multiplies: only less work is faster",
    EnginePart.KERNEL: "weights come in: only fewer are faster",
    EnginePart.TILE: "ports of the model, weights computed at run time and what has no room in L2 go through memory",
    EnginePart.L2:
        "operands pass through L2 as fast as they can, at 16 bits: 8-bit tensors are widened by this compiler",
    EnginePart.PLANAR: "sums, norms and products of two tensors have no form but the planar engine's"}
"""Why nothing is known to help, by the part that decides."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--chip", metavar="CHIP", help="m1, m4 max, or a machine's name (default: its target's)")
    parser.add_argument("--route", choices=tuple(SubmissionRoute), type=one_of(SubmissionRoute),
                        default=SubmissionRoute.MACOS, help="how programs are handed to the engine (default: macos)")
    subject_options(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Models one inference and advises."""
    opened = open_subject(options, options.chip)
    subject = subject_of(opened.content)
    found = profile(subject, options.chip or get_chip(subject.target).facts.chip, options.route, ClockState.FULL)
    said = explain(found, hazards(opened))
    where = places(found)
    looked = sampled(opened)
    if options.json:
        say_json({**_document(found, said, where), "precision_sampled": looked})
        return 0
    first, *rest = _text(found, said, where)
    say("\n".join([first, *cache_lines(opened.from_cache), *rest, *([] if looked else [UNSAMPLED])]))
    return 0


def _document(found: Profile, said: Explanation, where: tuple[RunPlace, ...]) -> dict[str, Any]:
    """Everything, times in microseconds."""
    return {"chip": found.rates.chip, "route": str(found.route), "times": str(found.time_kind),
            "time_us": found.seconds * MICRO, "dispatch_us": found.dispatch * len(found.programs) * MICRO,
            "host_operations_left_out": len(found.subject.host),
            "advice": [_advice(each) for each in said.advice], "together_us": said.together * MICRO,
            "overlap_us": said.overlap * MICRO,
            "nothing_known": {"time_us": said.rest.seconds * MICRO,
                              "decided_by_us": {str(part): time * MICRO for part, time in said.rest.parts.items()},
                              "operations_us": {kind: time * MICRO for kind, time in said.rest.kinds.items()}},
            "places": [{"name": place.name, "time_us": place.seconds * MICRO, "known": str(place.known)}
                       for place in where],
            "verdict": verdict(where, len(found.subject.host))}


def _advice(each: Advice) -> dict[str, Any]:
    return {"remedy": each.remedy, "gain_us": None if each.gain is None else each.gain * MICRO,
            "known": None if each.gain is None else str(each.known),
            "reasons": [{"subject": reason.subject, "what": reason.what,
                         "gain_us": None if reason.gain is None else reason.gain * MICRO} for reason in each.reasons]}


def _text(found: Profile, said: Explanation, where: tuple[RunPlace, ...]) -> Iterator[str]:
    total, host = found.seconds or 1.0, len(found.subject.host)
    yield (f"{found.subject.name} on {found.rates.chip}: {found.seconds * MICRO:.1f} us an inference "
           f"({found.time_kind}), {found.dispatch * len(found.programs) * MICRO:.1f} us of it dispatch"
           + (f"; without {plural(host, 'host operation')}, whose time is not modelled" if host else ""))
    yield "what costs most:"
    costs = list(found.time_by_node().items())
    yield from table([(f"{seconds * MICRO:.1f} us", f"{seconds / total:.0%}", name)
                      for name, seconds in costs[:COSTLIEST]], indent="  ")
    yield "what would help (gains are at most):" if said.advice else "nothing stands out that would help"
    for each in said.advice:
        yield from _lines(each, total)
    if said.overlap * MICRO >= 0.1:
        yield (f"  gains overlap: all of it together saves up to {said.together * MICRO:.1f} us "
               f"({said.together / total:.0%}, {said.known})")
    yield from _nothing(said.rest, total)
    yield "where to run it (CPU and GPU from guesses" + ("; host operations left out):" if host else "):")
    yield from table([(place.name, f"{place.seconds * MICRO:.0f} us", str(place.known)) for place in where],
                     indent="  ")
    yield f"  {verdict(where, host)}"


def _lines(each: Advice, total: float) -> Iterator[str]:
    if each.gain is None:
        yield f"  no time, or nobody can say: {each.remedy}"
    else:
        yield f"  {each.gain * MICRO:.1f} us ({each.gain / total:.0%}, {each.known}): {each.remedy}"
    alike: dict[str, list[str]] = {}
    for reason in each.reasons:
        gain = f" ({reason.gain * MICRO:.1f} us)" if reason.gain is not None else ""
        alike.setdefault(reason.what, []).append(f"{reason.subject}{gain}")
    for what, subjects in list(alike.items())[:SHOWN]:
        yield f"    {what}: {', '.join(subjects[:SHOWN])}" + _more(len(subjects))
    yield from ([f"   {_more(len(alike))} of this kind"] if len(alike) > SHOWN else [])


def _more(count: int) -> str:
    return f" and {count - SHOWN} more" if count > SHOWN else ""


def _nothing(rest: Rest, total: float) -> Iterator[str]:
    """What no advice is about, and why."""
    if rest.seconds / total < 0.01:
        return
    kinds = ", ".join(f"{kind} {seconds * MICRO:.1f} us" for kind, seconds in list(rest.kinds.items())[:SHOWN])
    yield f"nothing is known to help with {rest.seconds * MICRO:.1f} us ({rest.seconds / total:.0%}): {kinds}"
    for part, seconds in rest.parts.items():
        if seconds / total >= 0.01:
            yield f"  {seconds * MICRO:.1f} us, {part}: {HONEST[part]}"
    for kind, op in all_ops().items():
        if op.inherent and rest.kinds.get(kind, 0.0) / total >= 0.01:
            yield f"  {rest.kinds[kind] * MICRO:.1f} us of it {kind}: {op.inherent}"
