"""What this machine can do, what is missing, and what helps. It reads and asks, and changes nothing.

Exit status 1 when something that is wanted is missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from openane.cli.output import as_json, plural
from openane.doctor import Check, Status, examine

MARKS = {Status.OK: "ok", Status.MISSING: "MISSING", Status.NOTE: "note", Status.UNKNOWN: "unknown"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Looks and reports."""
    checks = examine()
    if options.json:
        print(as_json({"checks": [asdict(check) for check in checks]}))
    else:
        print("\n".join(_text(checks)))
    return int(any(check.status is Status.MISSING for check in checks))


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
