"""Run an unmodified program whose /dev/accel/accel0 is the simulated Linux driver, or serve the driver on a socket.

Everything after -- is the command. It, its threads and all it starts see the simulated node, whatever language they
are written in and however they are linked; its exit status is passed on, 128 + n when signal n ended it. At the end
stderr says what was wrong: buffers not freed, accesses outside buffers, hangs. Programs that gain privileges when they
are executed (sudo) do not gain them. --listen also serves programs that open the device linux?driver=PATH.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from openane.cli.output import say, say_json
from openane.devices.simdriver import SimDriver
from openane.devices.simdriver.driver import MODES
from openane.devices.simdriver.server import DriverServer
from openane.devices.simdriver.supervisor import Outcome, supervise
from openane.simulator import Mode
from openane.wording import plural

USAGE = 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.usage = "ane simdriver [OPTION ...] [-- COMMAND [ARGUMENT ...]]"
    parser.add_argument("command", metavar="COMMAND", nargs="*", help="the program to run, and its arguments")
    parser.add_argument("--mode", choices=MODES, default="strict",
                        help="strict finds wrong accesses and reclaims what is left; faithful does as the real driver "
                             "(default: strict)")
    parser.add_argument("--arithmetic", choices=tuple(str(mode) for mode in Mode), default="auto",
                        help="how the simulator multiplies and accumulates (default: auto)")
    parser.add_argument("--listen", metavar="PATH", type=Path,
                        help="serve the driver on a Unix socket as well; without a command, until interrupted")
    parser.add_argument("--json", action="store_true", help="the report as one line of JSON (on stderr)")


def run(options: argparse.Namespace) -> int:
    """Runs the command, or serves until interrupted; reports; the status of the command."""
    if not options.command and options.listen is None:
        say("ane simdriver: error: name a command after --, or a socket with --listen PATH", file=sys.stderr)
        return USAGE
    with SimDriver(options.mode, options.arithmetic) as driver:
        with ExitStack() as serving:
            if options.listen is not None:
                serving.enter_context(DriverServer(driver, options.listen))
            outcome = supervise(driver, options.command) if options.command else _serve(options.listen)
        if outcome.failure:
            say(f"ane: error: {options.command[0]}: {os.strerror(outcome.failure)}", file=sys.stderr)
        document = _document(driver, outcome)
    say_json(document, None, sys.stderr) if options.json else say("\n".join(_text(document)), file=sys.stderr)
    return outcome.status


def _serve(path: Path) -> Outcome:
    """Waits for Ctrl-C or SIGTERM."""
    say(f"ane: the simulated driver is linux?driver={path}", file=sys.stderr)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        while True:
            signal.pause()
    except KeyboardInterrupt:
        return Outcome(0, 0, {})
    finally:
        signal.signal(signal.SIGTERM, before)


def _document(driver: SimDriver, outcome: Outcome) -> dict[str, Any]:
    reports = [{"kind": type(found).__name__.removesuffix("Report").lower(), "client": found.client,
                "text": str(found)} for found in driver.reports]
    return {"status": outcome.status, "mode": driver.mode, "submissions": driver.submissions,
            "leaked_bytes": driver.used, "calls": outcome.counts, "reports": reports}


def _text(document: dict[str, Any]) -> list[str]:
    found = document["reports"]
    return [f"ane: simulated driver, {document['mode']}: {plural(document['submissions'], 'submission')} run, "
            f"{plural(len(found), 'complaint')}", *(f"ane: {report['kind']}: {report['text']}" for report in found)]
