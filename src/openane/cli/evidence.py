"""Judge files of `ane attest`: what each supports, with odds, and where they contradict each other.

Nothing in a file is executed: programs and predictions are made here. No table is changed: --prepare prints the patch
that the files ask for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from openane.cli.output import say, say_json, say_whole, table
from openane.errors import AneError, UnsupportedError
from openane.experiments.evidence_file import LARGEST, EvidenceFile, read_evidence
from openane.experiments.facts import deciders, open_facts, reason
from openane.experiments.judge.odds import NAMED, Verdict, verdicts
from openane.experiments.judge.page import knowledge, page
from openane.experiments.judge.tables import Contradiction, contradictions, prepared
from openane.experiments.judge.timing import fitted
from openane.formats.files import write_atomically
from openane.wording import plural

ALONE = ("facts", "markdown", "page", "prepare", "json")
"""Options that have something to say without files."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="files of ane attest")
    parser.add_argument("--prepare", action="store_true", help="print the change they ask for, as a patch")
    parser.add_argument("--facts", action="store_true", help="list every open fact with what decides it")
    parser.add_argument("--markdown", action="store_true", help="the state of knowledge by chip and field, as Markdown")
    parser.add_argument("--page", "--html", metavar="FILE.html", type=Path, help="the same for a browser")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Reads, judges, prints. Exit status 1 where files contradict each other."""
    if not (options.files or any(getattr(options, name) for name in ALONE)):
        raise UnsupportedError("ane evidence", "nothing is asked", remedy="name files of ane attest, or --facts, "
                               "--markdown or --page, which need none")
    if options.page is not None:
        write_atomically(options.page, page().encode())
        say(f"{options.page}: what is known, by chip and field")
    if options.markdown:
        say("\n".join(knowledge()))
    if options.facts:
        say("\n".join(_facts()))
    files = [_read(path) for path in options.files]
    judged = {each.identity: (each, verdicts(each)) for each in files}
    against = list(contradictions(judged))
    if options.prepare:
        patch = prepared(files)
        say_whole(patch)
        if not patch:
            say("ane: these files ask for no change (those of simulated engines never do)", file=sys.stderr)
    elif options.json:
        say_json(_document(judged, [str(each) for each in against]))
    else:
        _show(judged, against)
    return int(bool(against))


Judged = dict[str, tuple[EvidenceFile, tuple[Verdict, ...]]]


def _show(judged: Judged, against: Sequence[Contradiction]) -> None:
    for evidence, found in judged.values():
        say("\n".join(_said(evidence, found)))
        for parameter in fitted(evidence):
            say(f"fitted         {parameter}")
    for contradiction in against:
        say(f"contradiction  {contradiction}")


def _read(path: Path) -> EvidenceFile:
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    try:
        return read_evidence(data)
    except AneError as error:
        raise error.within(path) from None


def _said(evidence: EvidenceFile, found: Sequence[Verdict]) -> Iterator[str]:
    about = evidence.head["about"]
    complete = "complete" if len(evidence.trials) >= evidence.head["trials"] else \
        f"{len(evidence.trials)} of {evidence.head['trials']} trials"
    yield f"{evidence.identity[:12]}  {evidence.generation}, {evidence.chip}, {about['system']} {about['release']}, " \
          f"{about['description']}; {complete}"
    yield from table([(each.experiment, each.named or "undecided", _odds(each)) for each in found],
                     heading=("experiment", "supports", "odds"))
    named = sum(bool(each.named) for each in found)
    yield f"{plural(named, 'experiment')} of {len(found)} decided, at {NAMED:g} to 1 or more"


def _odds(verdict: Verdict) -> str:
    if verdict.why_not:
        return verdict.why_not
    return f"{min(verdict.against, 1e6):.3g} to 1" if verdict.named else ", ".join(
        f"{name} {share:.2f}" for name, share in sorted(verdict.odds.items(), key=lambda each: -each[1])[:3])


def _document(judged: Judged, against: list[str]) -> dict[str, object]:
    return {"files": [{"file": identity, "generation": evidence.generation, "chip": evidence.chip,
                       "verdicts": [{"experiment": each.experiment, "named": each.named, "odds": dict(each.odds),
                                     "why_not": each.why_not} for each in found],
                       "fitted": [asdict(each) for each in fitted(evidence)]}
                      for identity, (evidence, found) in judged.items()], "contradictions": against}


def _facts() -> Iterator[str]:
    rows = [(fact.name, ", ".join(each.name for each in deciders(fact)) or f"none: {reason(fact)}")
            for fact in open_facts()]
    yield from table(rows, heading=("fact", "decided by"))
    decided = sum(bool(deciders(fact)) for fact in open_facts())
    yield f"{decided} of {len(rows)} facts have an experiment ({100 * decided / len(rows):.1f} %)"
