"""Commands of the documentation, those that no test can run too (on a Mac, of somebody's model, on two machines):
every verb is one of `ane`'s, every option one of the verb's, and a whole command is one that its parser takes."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from support.pages import BLOCK, shown

from openane.cli import VERBS
from openane.cli.parsers import verb_parser

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")))}
RECIPES = "CONTRIBUTING.md"
"""Its commands are of packages that its recipes extended; tests/execution/test_recipes.py runs them."""
parser = cache(verb_parser)


def named(page: str) -> list[str]:
    """Commands that a sentence names, whole or in part, such as `ane check MODEL [--sample ...]`."""
    return [" ".join(text.split()) for text in re.findall("`(ane [a-z][^`]*)`", BLOCK.sub("", page))]


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if shown(page) and name != RECIPES])
def test_commands_that_are_shown_are_taken(name: str) -> None:
    for command in shown(PAGES[name]):
        _, verb, *words = shlex.split(command)
        assert verb in VERBS, f"{command}: no verb"
        try:
            parser(verb).parse_args(words)
        except SystemExit as stop:
            pytest.fail(f"{command}: refused with status {stop.code}")


@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if named(page)])
def test_options_that_are_named_exist(name: str) -> None:
    for command in named(PAGES[name]):
        verb = command.split()[1].strip(",.")
        assert verb in VERBS, f"{command}: no verb"
        told = parser(verb).format_help()
        missing = [option for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", command)
                   if not re.search(rf"{option}(?![\w-])", told)]
        assert not missing, f"{command}: no option {missing}"


def test_there_is_something_to_look_at() -> None:
    assert sum(len(shown(page)) for page in PAGES.values()) > 80
    assert sum(len(named(page)) for page in PAGES.values()) > 150
