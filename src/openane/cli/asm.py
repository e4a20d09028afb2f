"""Assemble the text form of a program, as `ane dis FILE -o OUT` writes it, back into a file.

What was not edited comes out byte for byte. Mistakes are reported with their line and column.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openane.errors import AneError
from openane.formats.files import write_atomically
from openane.formats.listing import assemble_file


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE.ane.s", type=Path, help="the text; its .bin is looked for beside it")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True,
                        help="the program to write (.hwx or .anec, as the text's first line says)")


def run(options: argparse.Namespace) -> int:
    """Writes the program."""
    try:
        data = assemble_file(options.file)
    except AneError as error:
        raise error.within(options.file) from None
    write_atomically(options.output, data)
    return 0
