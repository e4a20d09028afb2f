"""Print the completion of `ane` for a shell: its verbs, their options and files.

    bash   ane completion bash > ~/.local/share/bash-completion/completions/ane
    zsh    ane completion zsh > "${fpath[1]}/_ane"
    fish   ane completion fish > ~/.config/fish/completions/ane.fish

Wheels carry these files, and a manual page for every verb, in share/ of the environment they are installed into: an
environment of the system's own has both without this command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openane.cli.output import say_whole
from openane.errors import AneError

INSTALLED = {
    "bash": "share/bash-completion/completions/ane",
    "zsh": "share/zsh/site-functions/_ane",
    "fish": "share/fish/vendor_completions.d/ane.fish",
}
"""Shell to the place of its file in an environment, where the shell itself looks in the system's."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's argument."""
    parser.add_argument("shell", choices=tuple(INSTALLED), help="the shell it is for")


def run(options: argparse.Namespace) -> int:
    """Prints the file that was installed or, where the package runs from its source, makes it."""
    installed = Path(sys.prefix, INSTALLED[options.shell])
    say_whole(installed.read_text("utf-8") if installed.is_file() else completion(options.shell))
    return 0


def completion(shell: str) -> str:
    """The completion script of a shell, made by shtab from the parsers of all verbs. Raises AneError without shtab."""
    try:
        import shtab
    except ImportError:
        raise AneError("completion is made by shtab where openane is not installed from a wheel; it is missing: "
                       "pip install shtab") from None
    from openane.cli import VERBS
    from openane.cli.parsers import whole_parser

    text: str = shtab.complete(whole_parser(VERBS), shell=shell)
    return text if text.endswith("\n") else text + "\n"
