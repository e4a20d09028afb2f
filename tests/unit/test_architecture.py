"""ARCHITECTURE.md is what the source gives: the rooms, who imports whom, and the files of the two journeys."""

from __future__ import annotations

import pytest
from support import architecture


@pytest.fixture(scope="module")
def page() -> str:
    return architecture.PAGE.read_text()


@pytest.fixture(scope="module")
def parts(page: str) -> dict[str, str]:
    return architecture.parts(page)


@pytest.mark.parametrize("name", ["rooms", "compiler", "table", "to words", "to arithmetic"])
def test_the_page_is_what_the_source_gives(name: str, page: str, parts: dict[str, str]) -> None:
    assert set(parts) == {"rooms", "compiler", "table", "to words", "to arithmetic"}
    assert architecture.block(page, name) == parts[name], "make docs writes the page anew"


def test_a_convolution_passes_few_files(parts: dict[str, str]) -> None:
    files = [found["file"] for found in architecture.LINE.finditer(parts["to words"])]
    assert files[0] == "cli/compile.py"
    assert {"ops/conv.py", "compiler/weights/pack.py", "chips/emit/operation.py", "registers/field.py"} <= set(files)
    assert len(files) <= architecture.MOST_FILES


def test_a_word_arrives_at_the_arithmetic(parts: dict[str, str]) -> None:
    files = [found["file"] for found in architecture.LINE.finditer(parts["to arithmetic"])]
    assert files[0] == "cli/run.py"
    assert files[-1].startswith("simulator/arithmetic/")


def test_layers_and_shortest_arrows() -> None:
    graph = {"top": {"middle", "low"}, "middle": {"low"}, "low": set(), "beside": {"low"}}
    assert architecture.layers(graph) == [["low"], ["beside", "middle"], ["top"]]
    assert architecture.shortest(graph) == {"top": {"middle"}, "middle": {"low"}, "low": set(), "beside": {"low"}}


def test_a_changed_part_replaces_what_stood_there() -> None:
    page = "before\n" + architecture.BLOCK.format(name="x", text="old") + "\nafter"
    again = architecture.written(page, {"x": "new"})
    assert architecture.block(again, "x") == "new"
    assert again == page.replace("old", "new")
