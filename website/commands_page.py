"""The page of commands: what `ane VERB --help` says of every verb, as the parsers state it."""

from __future__ import annotations

from openane.cli import VERBS
from openane.cli.parsers import verb_parser

HEAD = """# Commands

`ane VERB ...`, or `python -m openane VERB ...`. Data goes to the standard output, talk to the standard error. The exit
status is 0 for success, 1 when something is refused or failed, 2 for wrong usage. Commands that report take `--json`.

| verb | what it does |
|---|---|
"""


def page() -> str:
    """The page in Markdown."""
    rows = "".join(f"| [{verb}](#ane-{verb}) | {line} |\n" for verb, line in VERBS.items())
    return HEAD + rows + "".join(_section(verb) for verb in VERBS)


def _section(verb: str) -> str:
    text = verb_parser(verb).format_help().strip()
    return f"\n## ane {verb}\n\n```text\n{text}\n```\n"
