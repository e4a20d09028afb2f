"""Compare two programs: tasks aligned by what they do, differences in words, then in register fields and bits.

Buffers and constants are compared too; containers are not (two files that hold the same program are the same).
Exit status as diff(1): 0 the programs are the same, 1 they differ, 2 trouble.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openane.cli.files import programs
from openane.cli.output import say, say_json
from openane.errors import AneError, UnsupportedError
from openane.program import Program
from openane.program.diff import diff, diff_document, diff_lines

SAME, DIFFERENT, TROUBLE = 0, 1, 2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    for name in ("a", "b"):
        parser.add_argument(name, metavar=name.upper(), type=Path, help="a program (.hwx, .anec) or a bundle of one")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints what differs."""
    try:
        found = diff(_program(options.a), _program(options.b))
    except (AneError, OSError) as error:
        say(f"ane: error: {error}", file=sys.stderr)
        return TROUBLE
    if options.json:
        say_json({"a": str(options.a), "b": str(options.b)} | diff_document(found))
    else:
        for line in diff_lines(found):
            say(line)
    return SAME if found.same else DIFFERENT


def _program(path: Path) -> Program:
    found = programs(path)
    if len(found) != 1:
        raise UnsupportedError(str(path), "one program is compared with one", limit=1, found=len(found),
                               remedy="name a .hwx file in the bundle's folder programs, or compile for one target")
    return found[0]
