"""Drive a recorded trace against a driver, and print every byte that comes out otherwise.

A trace is what 'ane run --record T' writes: every request to the Linux driver, its answer, and what memory held before
and after. On the simulated driver it needs no hardware; --device linux:0 --unverified takes an engine. Exit status 1
when anything differs.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import asdict
from pathlib import Path

from openane.cli.output import say, say_json
from openane.devices.linux import replayed
from openane.devices.linux.trace import Trace
from openane.wording import plural

SHOWN = 20
DEVICE = "linux?driver=simulated"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("trace", metavar="TRACE", type=Path, help="a file that ane run --record has written")
    parser.add_argument("--device", metavar="D", default=DEVICE, help=f"the driver to ask (default: {DEVICE})")
    parser.add_argument("--unverified", action="store_true",
                        help="let an engine execute the recorded commands, which the verifier does not see")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Replays and compares."""
    trace = Trace(options.trace)
    try:
        differences = list(itertools.islice(replayed(trace, options.device, options.unverified), SHOWN))
        submissions = trace.submissions
    finally:
        trace.close()
    more = len(differences) == SHOWN
    if options.json:
        say_json({"trace": str(options.trace), "header": trace.header, "device": options.device,
                       "events": len(trace.events), "submissions": submissions,
                       "differences": [asdict(each) for each in differences], "more": more})
        return int(bool(differences))
    machine = trace.header.get("system") or "an unknown machine"
    say(f"{options.trace}: {plural(len(trace.events), 'event')}, {plural(submissions, 'submission')}, recorded on "
          f"{machine}, against {options.device}")
    for each in differences:
        say(f"  {each}")
    say("every answer and every byte is the recorded one" if not differences else
          f"{'at least ' if more else ''}{plural(len(differences), 'difference')}")
    return int(bool(differences))
