"""Where the time of a model or program goes on a chip: a summary, the longest tasks, CSV, JSON, a trace, a report.

Counts are exact; bytes moved and times are modelled from published figures of the chip, and times called extrapolated
where those are guessed or the program was planned for another generation.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.chips import get_chip
from openane.cli.health import measured
from openane.cli.numbers import one_of, whole
from openane.cli.output import say, say_json
from openane.cli.output import table as aligned
from openane.cli.subject import Subject as Opened
from openane.cli.subject import open_subject, subject_options
from openane.cli.summary import cache_lines, look_lines, report_lines, report_option
from openane.compiler import Model, ProgramStep, Where
from openane.errors import UnsupportedError
from openane.formats.files import write_atomically
from openane.program import Program
from openane.report import Profile, ProfileSubject, as_csv, as_trace, document, html, profile, summary, table
from openane.timing import ClockState, SubmissionRoute


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--chip", metavar="CHIP", help="m1, m4 max, or a machine's name (default: its target's)")
    parser.add_argument("--route", choices=tuple(SubmissionRoute), type=one_of(SubmissionRoute),
                        default=SubmissionRoute.MACOS, help="how programs are handed to the engine (default: macos)")
    parser.add_argument("--clock", choices=tuple(ClockState), type=one_of(ClockState), default=ClockState.FULL,
                        help="how far the system has raised the engine's clock (default: full)")
    parser.add_argument("--trace", metavar="T.json", type=Path, help="write a trace for ui.perfetto.dev")
    parser.add_argument("--csv", metavar="T.csv", type=Path, help="write a line per task")
    parser.add_argument("--html", "--page", dest="html", metavar="R.html", type=Path,
                        help="write a report for browsers: one file that fetches nothing")
    parser.add_argument("--compare", metavar="OTHER", type=Path,
                        help="with --html: show another run beside it, from its report or --json document")
    parser.add_argument("--numbers", action="store_true",
                        help="with --html: run the model on the simulator beside its reference and show its values")
    parser.add_argument("--arithmetic", choices=("auto", "exact", "fast"), default="auto",
                        help="with --numbers: how the simulator multiplies and accumulates (default: auto)")
    parser.add_argument("--seed", metavar="N", type=whole(0), default=0,
                        help="with --numbers: seed of drawn inputs (default: 0)")
    parser.add_argument("--all", action="store_true", help="show every task, in order")
    subject_options(parser)
    report_option(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Models one inference and reports."""
    _together(options)
    opened = open_subject(options, options.chip)
    other = html.read(options.compare) if options.compare is not None else None
    subject = subject_of(opened.content)
    chip = get_chip(subject.target).facts.chip if options.chip is None else options.chip
    found = profile(subject, chip, options.route, options.clock)
    written = _files(found, opened, other, options)
    if options.json:
        say_json(document(found))
        return 0
    say("\n".join(_summary(found, opened, options.report)))
    heading, rows = table(found, None if options.all else 20)
    if len(rows) < len(found.rows):
        say(f"the {len(rows)} longest of {len(found.rows)} tasks (--all shows every one):")
    say("\n".join(aligned(rows, heading=heading, indent="  ")))
    if options.report and isinstance(opened.content, Model):
        say("\n".join(["operations:", *report_lines(opened.content)]))
    for path, what in written.items():
        say(f"{path}: {what}")
    return 0


def _files(found: Profile, opened: Opened, other: Mapping[str, Any] | None,
           options: argparse.Namespace) -> dict[Path, str]:
    """Writes what was asked for; what each file is."""
    written = dict[Path, str]()
    if options.trace is not None:
        write_atomically(options.trace, as_trace(found))
        written[options.trace] = "the trace, for ui.perfetto.dev"
    if options.csv is not None:
        write_atomically(options.csv, as_csv(found).encode())
        written[options.csv] = "the table, every task"
    if options.html is not None:
        write_atomically(options.html, _report(found, opened, other, options).encode())
        written[options.html] = "the report, for a browser"
    return written


def _summary(found: Profile, opened: Opened, report: bool) -> list[str]:
    """The summary of a profile, and what the compiler has to say of the model."""
    first, *rest = summary(found)
    look = look_lines(opened.content, complete=report, listed=report) if isinstance(opened.content, Model) else []
    return [first, *cache_lines(opened.from_cache), *rest, *look]


def _together(options: argparse.Namespace) -> None:
    """UnsupportedError for what is of no use without a report."""
    for name in ("compare", "numbers"):
        if getattr(options, name) and options.html is None:
            raise UnsupportedError(f"--{name}", "it is shown in the report", remedy="add --html R.html")


def _report(found: Profile, opened: Opened, other: Mapping[str, Any] | None, options: argparse.Namespace) -> str:
    """The page."""
    content = opened.content
    numbers = measured(opened, options.seed, options.arithmetic) if options.numbers else None
    if isinstance(content, Program):
        return html.page(html.gathered(found, numbers=numbers, other=other))
    origins = [html.OperationPlace(entry.operation, str(entry.where), entry.reason) for entry in content.report]
    return html.page(html.gathered(found, content.graph, origins, numbers, other))


def subject_of(content: Program | Model) -> ProfileSubject:
    """What to profile of a program or a compiled model."""
    if isinstance(content, Program):
        return ProfileSubject.of_program(content)
    order = [step.program for step in content.steps if isinstance(step, ProgramStep)]
    place = {program: number for number, program in enumerate(order)}
    nodes = {(place[entry.program], task): entry.operation for entry in content.report
             if entry.where is Where.ENGINE and entry.program in place for task in entry.tasks}
    return ProfileSubject(content.name, content.target, tuple(content.programs[number] for number in order), nodes,
                          host=tuple(entry.operation for entry in content.report if entry.where is Where.HOST))
