"""The parsers of the command line: of one verb, which is all a call builds, and of all verbs, from which completion of
shells and manual pages are made."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def verb_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of `ane VERB`. Imports the verb's module and no other verb's."""
    return _declared(verb, argparse.ArgumentParser(prog=f"ane {verb}", **_presentation(verb)))


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
