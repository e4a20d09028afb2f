"""The plots of docs/performance.md: the page shows what is drawn, from data that say where they come from."""

from __future__ import annotations

import json
import re
from itertools import product

import plots
from support.pages import ROOT

DOCS = ROOT / "docs"


def test_the_page_shows_what_is_drawn() -> None:
    page = (DOCS / "performance.md").read_text()
    files = {plots.file_of(name, shade) for name, shade in product(plots.PLOTS, plots.INK)}
    assert set(re.findall(r"\]\((performance-[\w-]+\.svg)#only", page)) == {path.name for path in files}
    assert all(path.stat().st_size < 100_000 for path in files)
    table = json.loads(plots.DATA.read_text())["chips"]
    text = plots.drawn("chips", "dark", table)
    assert all(f">{network}<" in text for network in table["us"])


def test_every_table_says_which_command_printed_it_and_when() -> None:
    tables = json.loads(plots.DATA.read_text())
    assert set(tables) < set(plots.PLOTS)
    for table in tables.values():
        assert table["command"].startswith(("ane ", "python "))
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", table["date"])


def test_errors_are_those_of_every_model_of_the_table() -> None:
    page = (DOCS / "zoo.md").read_text()
    [stated] = re.findall(r"^\| all \| (\d+) \|", page, re.MULTILINE)
    assert len(plots.zoo_errors()) == int(stated)
