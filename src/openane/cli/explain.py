"""What costs most in a model on a chip and what would help, each with the time it would save at most.

Times are modelled. The comparison with CPU and GPU is rough: their peaks and what a call costs there are guesses.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict

from openane.cli.output import as_json, table
from openane.cli.profile import CHIPS, subject_of
from openane.cli.subject import model_arguments, open_subject
from openane.compiler import Model
from openane.report import Profile, profile
from openane.report.explain import Advice, explain
from openane.report.places import Place, places, verdict
from openane.timing import Route, State

MICRO = 1e6
COSTLIEST, SHOWN = 8, 4


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--chip", metavar="CHIP", help="m1, m4 max, or a machine's name (default: its target's)")
    parser.add_argument("--route", choices=tuple(Route), type=Route, default=Route.MACOS,
                        help="how programs are handed to the engine (default: macos)")
    model_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Models one inference and advises."""
    content = open_subject(options.file, dict(options.shape), options).content
    subject = subject_of(content)
    found = profile(subject, options.chip or CHIPS[subject.target], options.route, State.FULL)
    concerns = content.concerns if isinstance(content, Model) else ()
    advice = explain(found, [(each.operation, str(each).partition(": ")[2]) for each in concerns])
    where = places(found)
    if options.json:
        print(as_json({"chip": found.rates.chip, "times": str(found.time_kind), "time_us": found.seconds * MICRO,
                       "advice": [asdict(each) for each in advice],
                       "places": [asdict(each) for each in where], "verdict": verdict(where)}))
        return 0
    print("\n".join(_text(found, advice, where)))
    return 0


def _grouped(advice: tuple[Advice, ...]) -> list[list[Advice]]:
    """Advice with one remedy together, the largest gain in sum first."""
    groups: dict[str, list[Advice]] = {}
    for each in advice:
        groups.setdefault(each.remedy, []).append(each)
    return sorted(groups.values(), key=lambda alike: -sum(each.gain or 0.0 for each in alike))


def _text(found: Profile, advice: tuple[Advice, ...], where: tuple[Place, ...]) -> Iterator[str]:
    total = found.seconds or 1.0
    yield (f"{found.subject.name} on {found.rates.chip}: {found.seconds * MICRO:.1f} us an inference "
           f"({found.time_kind}), {found.dispatch * len(found.programs) * MICRO:.1f} us of it dispatch")
    yield "what costs most:"
    costs = list(found.time_by_node().items())
    yield from table([(f"{seconds * MICRO:.1f} us", f"{seconds / total:.0%}", name)
                      for name, seconds in costs[:COSTLIEST]], indent="  ")
    yield "what would help:" if advice else "nothing stands out that would help"
    for alike in _grouped(advice):
        gain = sum(each.gain or 0.0 for each in alike)
        yield f"  {f'up to {gain * MICRO:.1f} us ({gain / total:.0%})' if gain else 'no time, or nobody can say'}: " \
              f"{alike[0].what}"
        yield f"    -> {alike[0].remedy}"
        shown = ", ".join(f"{each.subject} ({each.gain * MICRO:.1f} us)" if each.gain else each.subject
                          for each in alike[:SHOWN])
        yield f"    {shown}" + (f" and {len(alike) - SHOWN} more" if len(alike) > SHOWN else "")
    yield "where to run it (CPU and GPU are guesses):"
    yield from table([(place.name, f"{place.seconds * MICRO:.0f} us", str(place.known)) for place in where],
                     indent="  ")
    yield f"  {verdict(where)}"
