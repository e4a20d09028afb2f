"""The parsers of the command line: of one verb, which is all a call builds, and of all verbs, from which completion of
shells and manual pages are made."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn


class VerbParser(argparse.ArgumentParser):
    """A parser that says what is wrong in a few lines, and which option a misspelt one is like."""

    def error(self, message: str) -> NoReturn:
        """Ends the command."""
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        near = difflib.get_close_matches(unknown[1], self._option_string_actions, n=1) if unknown else ()
        if near:
            message += f"; did you mean {near[0]}?"
        places = " ".join(str(each.metavar or each.dest) for each in self._get_positional_actions())
        self.exit(2, f"usage: {self.prog} [options] {places}".rstrip() +
                  f"\n{self.prog}: error: {message}\nhint: '{self.prog} --help' explains the options\n")


def verb_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of `ane VERB`. Imports the verb's module and no other verb's."""
    return _declared(verb, VerbParser(prog=f"ane {verb}", **_presentation(verb)))


def whole_parser(verbs: Mapping[str, str]) -> argparse.ArgumentParser:
    """The parser of `ane` with a parser for every verb under it; `verbs` are verbs and the line that describes each.
    Imports every verb's module."""
    parser = argparse.ArgumentParser(
        prog="ane", description="Compile, inspect, simulate and run programs for the Apple Neural Engine.")
    parser.add_argument("--version", action="store_true", help="show the version of openane and exit")
    below = parser.add_subparsers(title="verbs", metavar="VERB")
    for verb, line in verbs.items():
        _declared(verb, below.add_parser(verb, help=line, **_presentation(verb)))
    return parser


def _presentation(verb: str) -> dict[str, Any]:
    return {"description": import_module(f"openane.cli.{verb}").__doc__,
            "formatter_class": argparse.RawDescriptionHelpFormatter}


def _declared(verb: str, parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    import_module(f"openane.cli.{verb}").arguments(parser)
    return parser
