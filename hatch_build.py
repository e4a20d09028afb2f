"""What a wheel carries beside the package: completion of shells and manual pages, made from the parsers of `ane`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MANUAL = "share/man/man1"


class SharedFiles(BuildHookInterface[Any]):  # found by hatchling as the one hook of this file
    """Writes the files into build/share and hands their places to the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Makes the files of a wheel; an editable install has the parsers themselves."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root / "src"))
        from openane.cli.completion import INSTALLED, completion

        texts = {place: completion(shell) for shell, place in INSTALLED.items()} | _manual_pages()
        for place, text in texts.items():
            made = root / "build" / place
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(text)
            build_data["shared_data"][str(made)] = place


def _manual_pages() -> dict[str, str]:
    """Place to text of the page of `ane` and of every verb. Without a date: the same source makes the same bytes."""
    from argparse_manpage.manpage import Manpage

    from openane.cli import VERBS
    from openane.cli.parsers import verb_parser, whole_parser
    from openane.version import __version__

    pages = {}
    for name, parser in {"ane": whole_parser({}), **{f"ane-{verb}": verb_parser(verb) for verb in VERBS}}.items():
        parser.man_short_description = VERBS.get(name.removeprefix("ane-"), "programs for the Apple Neural Engine")
        page = Manpage(parser)
        page.prog, page.manual, page.source, page.date = name, "OpenANE", f"openane {__version__}", ""
        pages[f"{MANUAL}/{name}.1"] = str(page)
    # Verbs have pages of their own, which the first one names: with their options it would hold all of them again.
    front = f"{MANUAL}/ane.1"
    pages[front] = pages[front].partition(".SH\nVERBS")[0] + ".SH VERBS\n" + "".join(map(_entry, VERBS.items()))
    return pages


def _entry(verb: tuple[str, str]) -> str:
    """A verb and its line as an entry of a list."""
    name, line = (text.replace("-", "\\-") for text in verb)
    return f".TP\n.BR ane\\-{name} (1)\n{line}\n"
