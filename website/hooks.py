"""Hooks of mkdocs: pages made from the source, pages that lie at the root of the repository, and their links."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

import commands_page
import formats_tables
import python_page

ROOT = Path(__file__).parent.parent
AT_ROOT = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Pages of the repository's root that the site has beside those of docs."""
LINK = re.compile(r"(?<!!)\[([^]\[]+)\]\(([^)#:]+)(#[^)]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that docs does not hold."""
    for name in AT_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "reference/commands.md", content=commands_page.page()))
    files.append(File.generated(config, "reference/python.md", content=python_page.page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them: a page of the root is beside those of docs, and what is no page of the site (sources,
    examples) is named without a link. Tables of structures are put where a page asks for them."""
    here = page.file.src_uri
    known = {file.src_uri for file in files}

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        place = _resolved(here, target)
        if place in known:
            up = "../" * here.count("/")
            return f"[{text}]({up}{place}{anchor})"
        return f"{text} (`{place}` of the repository)" if place not in text else text

    return LINK.sub(link, formats_tables.filled(markdown))


def _resolved(here: str, target: str) -> str:
    """The place that a link of the page at `here` names, as a path inside of docs, or of the repository."""
    base = ROOT if here in AT_ROOT else (ROOT / "docs" / here).parent
    path = (base / target).resolve()
    docs = ROOT / "docs"
    if path.is_dir() and path.is_relative_to(docs / "registers"):
        path = path / "h13.md"
    return path.relative_to(docs if path.is_relative_to(docs) else ROOT).as_posix()
