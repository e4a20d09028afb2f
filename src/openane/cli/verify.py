"""Verify a program: prove that it stays inside its buffers, reads nothing unwritten and leaves no rule of the engine.

Prints every violation on a line of its own: task, field, value, what is allowed, and the rule. Of a bundle, every file
is compared with its digest first, and the digest of all of them is printed; --digest asks for the one you were told.
"""

from __future__ import annotations

import argparse
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

from openane.cli.files import container, programs
from openane.cli.numbers import expected
from openane.cli.output import say, say_json, table
from openane.errors import FormatError
from openane.formats.bundled import Bundle
from openane.formats.mapping import map_file
from openane.formats.sealed import DIGITS
from openane.program import Program
from openane.program.verify import Violation, summary, violations
from openane.wording import byte_text, plural

FAILED = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a program (.hwx, .anec) or a bundle")
    parser.add_argument("--digest", metavar="SHA256", type=parse_digest,
                        help="refuse a bundle, or a file, that has another digest than this")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints the violations, or what was verified; 1 when there are any violations."""
    digest, files = _digest(options.file, options.digest)
    found = [(program, violations(program)) for program in programs(options.file)]
    if options.json:
        say_json({"file": str(options.file), "digest": digest, "programs": [_document(*pair) for pair in found]})
    else:
        if files:
            say(f"{plural(files, 'file')} as written, digest {digest}")
        for program, broken in found:
            say("\n".join(_lines(program, broken)))
    return FAILED if any(broken for _, broken in found) else 0


def parse_digest(text: str) -> str:
    """A SHA-256 in hexadecimal. ArgumentTypeError, which argparse reports, for any other form."""
    if not re.fullmatch(f"[0-9a-fA-F]{{{DIGITS}}}", text):
        raise expected(f"a SHA-256 as {DIGITS} hexadecimal digits", text)
    return text.lower()


def _digest(path: Path, wanted: str | None) -> tuple[str | None, int]:
    """The digest of what is compiled, and of a bundle how many files it has. FormatError when it is not the one that is
    wanted, or a file of the bundle is not as it was written."""
    kind = container(path)
    if kind is None:
        return None, 0
    bundle = Bundle(path) if kind == "bundle" else None
    digest = bundle.seal.digest if bundle else sha256(map_file(path)).hexdigest()
    if wanted not in (None, digest):
        raise FormatError(f"{path} is not what was asked for", expected=f"SHA-256 {wanted}", found=digest)
    if bundle is None:
        return digest, 0
    bundle.check()
    return digest, len(bundle.seal.files)


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
