"""Assemble the text form of a program, as `ane dis FILE -o OUT` writes it, back into a file.

What was not edited comes out byte for byte. Mistakes are reported with their line and column.
"""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path

from openane.cli.outputs import STREAMS, write_out
from openane.errors import AneError, FormatError, UnsupportedError
from openane.formats import detect
from openane.formats.listing import assemble_file

SUFFIXES = (".hwx", ".anec")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE.ane.s", type=Path, help="the text; its .bin is looked for beside it")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True,
                        help="the program to write (.hwx or .anec, as the text's first line says; -: standard output)")
    parser.set_defaults(**{STREAMS: ("output",)})


def run(options: argparse.Namespace) -> int:
    """Writes the program."""
    try:
        data = assemble_file(options.file)
    except AneError as error:
        raise error.within(options.file) from None
    _require_kind(options.output, data)
    write_out(options.output, data)
    return 0


def _require_kind(output: Path, data: bytes) -> None:
    """UnsupportedError for a name that says another format than the text is of."""
    with suppress(FormatError):  # of a text that was edited until it is neither, the bytes are written all the same
        kind = detect(data)
        if output.suffix in SUFFIXES and output.suffix != f".{kind}":
            raise UnsupportedError(str(output), "the text is of another format, as its first line says",
                                   found=output.suffix, limit=f".{kind}",
                                   remedy=f"name it {output.with_suffix(f'.{kind}').name}; a model is compiled to the "
                                          "format that OUT's name says")
