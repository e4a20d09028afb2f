"""What this machine can do, what is missing, and what helps. It reads and asks, and changes nothing.

--survey writes what a Mac's private interfaces are, selector by selector, against those openane knows; nothing of them
is called. Such a file can be contributed: it holds no names of yours, only those of the system. Exit status 1 when
something that is wanted is missing, or a surveyed interface is not the known one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from openane.cli.output import as_json, say, say_json
from openane.devices.macos.standin import SimulatedSymbols
from openane.devices.macos.symbols import RuntimeSymbols, SystemSymbols
from openane.doctor import Check, Status, examine
from openane.doctor.survey import differences, survey
from openane.errors import DeviceUnavailable
from openane.formats.files import write_atomically
from openane.wording import plural

MARKS = {Status.OK: "ok", Status.MISSING: "MISSING", Status.NOTE: "note", Status.UNKNOWN: "unknown"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--survey", metavar="FILE.json", type=Path, help="write the interfaces of this Mac")
    parser.add_argument("--runtime", choices=("system", "simulated"), default="system",
                        help="what to survey: this Mac, or the stand-in (default: system)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Looks and reports."""
    if options.survey is not None:
        return _survey(options.survey, options.runtime)
    checks = examine()
    if options.json:
        say_json({"checks": [asdict(check) for check in checks]})
    else:
        say("\n".join(_text(checks)))
    return int(any(check.status is Status.MISSING for check in checks))


def _survey(path: Path, runtime: str) -> int:
    """Writes a survey and prints what is not as it is known."""
    symbols: RuntimeSymbols = SystemSymbols() if runtime == "system" else SimulatedSymbols()
    try:
        if symbols.platform.system not in ("macOS", "stand-in"):
            raise DeviceUnavailable(f"this machine runs {symbols.platform.system}, which has none of the interfaces",
                                    "run it on a Mac; --runtime simulated surveys the stand-in")
        document = survey(symbols)
    finally:
        symbols.close()
    write_atomically(path, f"{as_json(document)}\n".encode())
    found = differences(document)
    say("\n".join(found or ["every interface is as it is known"]))
    methods = document["methods"].values()
    say(f"{path}: {plural(sum(map(len, methods)), 'method')} in {len(methods)} classes")
    return int(bool(found))


def _text(checks: Sequence[Check]) -> Iterator[str]:
    width = max(len(check.name) for check in checks)
    area = ""
    for check in checks:
        if check.area != area:
            area = check.area
            yield area
        yield f"  {MARKS[check.status]:<8} {check.name:<{width}}  {check.found}"
        if check.remedy:
            yield f"  {'':<8} {'':<{width}}  -> {check.remedy}"
    missing = sum(check.status is Status.MISSING for check in checks)
    yield f"{plural(missing, 'thing')} missing" if missing else "nothing is missing"
