"""Disassemble a program: per task one line on what it does, then its register fields by block, then its container.

Fields at their default are left out; bits that no field describes are shown as `rest`. Nothing of the file is lost:
`ane asm` turns the text back into the same bytes. Long pieces (constants) go to a second file beside OUT, which is
written only with -o.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openane.cli.files import program_files, programs
from openane.cli.output import say_whole
from openane.cli.outputs import STANDARD, STREAMS
from openane.errors import FormatError
from openane.formats.listing import Listing, disassemble_bytes, save_listing


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a program (.hwx, .anec) or a bundle of one program")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="write OUT (usually .ane.s), and OUT's stem "
                        "with .bin when there are long pieces, instead of printing (as - does)")
    parser.set_defaults(**{STREAMS: ("output",)})


def run(options: argparse.Namespace) -> int:
    """Prints or writes the text form."""
    if options.output == STANDARD:
        options.output = None
    for file, data in program_files(options.file, single=options.output is not None):
        listing = _listing(file, bytes(data), options.output.name if options.output else None)
        if options.output is None:
            say_whole(listing.text)
        else:
            save_listing(listing, options.output)
    return 0


def _listing(file: Path, data: bytes, text_name: str | None) -> Listing:
    try:
        return disassemble_bytes(data, file.name, text_name)
    except FormatError:
        programs(file)  # says so when it is a model
        raise
