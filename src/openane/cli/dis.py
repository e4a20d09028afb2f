"""Disassemble a program: per task one line on what it does, then its register fields by block.

Fields at their default are left out; bits that no field describes are shown as `rest`.
"""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from openane.cli.files import programs
from openane.program.text import disassemble


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a program (.hwx, .anec) or a bundle")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="write to a file instead of stdout")


def run(options: argparse.Namespace) -> int:
    """Prints the text form."""
    lines = chain.from_iterable(disassemble(program) for program in programs(options.file))
    if options.output is None:
        for line in lines:
            print(line)
    else:
        options.output.write_text("".join(f"{line}\n" for line in lines))
    return 0
