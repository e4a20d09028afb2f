"""Verify a program: prove that it stays inside its buffers, reads nothing unwritten and leaves no rule of the engine.

Prints every violation on a line of its own: task, field, value, what is allowed, and the rule.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from openane.cli.files import programs
from openane.cli.output import say, say_json, table
from openane.program import Program
from openane.program.verify import Violation, summary, violations
from openane.wording import byte_text, plural

FAILED = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a program (.hwx, .anec) or a bundle")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints the violations, or what was verified; 1 when there are any violations."""
    found = [(program, violations(program)) for program in programs(options.file)]
    if options.json:
        say_json({"file": str(options.file), "programs": [_document(*pair) for pair in found]})
    else:
        for program, broken in found:
            say("\n".join(_lines(program, broken)))
    return FAILED if any(broken for _, broken in found) else 0


def _document(program: Program, broken: tuple[Violation, ...]) -> dict[str, Any]:
    return {"name": program.name, "verified": not broken, **({} if broken else summary(program)),
            "violations": [violation.as_dict() for violation in broken]}


def _lines(program: Program, broken: tuple[Violation, ...]) -> list[str]:
    if not broken:
        counts = summary(program)
        return [f"verified: {plural(counts['tasks'], 'task')}, {counts['accesses']} accesses, "
                f"{plural(counts['streams'], 'coefficient stream')}, {plural(counts['buffers'], 'buffer')}, "
                f"{byte_text(counts['memory_bytes'])} of memory"]
    rows = [("program" if v.task is None else f"task {v.task}", v.field, str(v.value), f"allowed: {v.limit}",
             f"{v.sentence} [{v.rule}]") for v in broken]
    return [*table(rows), f"refused: {plural(len(broken), 'violation')}"]
