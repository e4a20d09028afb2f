"""Pages of the documentation that show commands: each runs as written and prints what the page shows."""

from __future__ import annotations

import shutil
from pathlib import Path
from socket import socket

import pytest
from support.pages import ROOT, check_steps, plain_code, steps, write_files

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if steps(path.read_text()))

PORT = "8437"
"""What a page serves at; tests that run at once need ports of their own."""


def test_there_are_pages_to_run() -> None:
    assert {"index.md", "walkthrough.md", "tutorials/first_model.md", "tutorials/transformer_block.md",
            "tutorials/training.md", "tutorials/serving.md"} <= set(PAGES)


@pytest.mark.parametrize("name", [name for name in PAGES if name != "walkthrough.md"])
def test_a_page_runs_as_written(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    page = (DOCS / name).read_text().replace(PORT, str(port))
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    write_files(page)
    check_steps(steps(page))
    for code in plain_code(page):
        exec(compile(code, name, "exec"), {})
