"""`ane chips`: the list, one generation, the register pages, and that the pages in docs are current."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from openane.chips import compiled_generations, described_generations, generations
from openane.chips.machines import SOCS, chips_of
from openane.cli import FAILED, main

DOCS = Path(__file__).parents[3] / "docs"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["chips", *arguments]) == 0
    return capsys.readouterr().out


def test_the_list_names_every_generation_and_chip(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys).splitlines()
    for name in generations():
        assert f"{name}  {', '.join(soc.name for soc in chips_of(name))}" in lines
    head = next(place for place, line in enumerate(lines) if line.startswith("chip "))
    rows = [re.split(r"\s{2,}", line) for line in lines[head + 1:head + 1 + len(SOCS)]]
    for row, soc in zip(rows, SOCS, strict=True):
        assert row[:2] == [soc.name, soc.variant or "-"]
        assert row[3] == ("-" if soc.clock.value is None else f"{soc.clock.value:g}")
    assert lines[head + 1 + len(SOCS)].startswith("~ derived")


def test_a_machine_leads_to_its_generation(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "MacBook Air 2022")
    assert text.startswith("h14:")
    assert "1.938" in text
    document = json.loads(printed(capsys, "MacBook Air 2022", "--json"))
    assert (document["generation"], [chip["name"] for chip in document["chips"]]) == ("h14", ["m2"])
    assert document["chips"][0]["clock"] == {"value": 1.938, "known": "table"}
    assert document["limits"]["l2_size"] == {"value": 2 << 20, "assumed": True}
    assert document["limits"]["slots.count"] == {"value": 32, "assumed": False}


def test_the_list_as_json_has_every_generation(capsys: pytest.CaptureFixture[str]) -> None:
    documents = json.loads(printed(capsys, "--json"))
    assert [d["generation"] for d in documents] == list(generations())
    assert [d["generation"] for d in documents if d["compiled"]] == list(compiled_generations())
    assert [d["generation"] for d in documents if d["inferred"]] == list(compiled_generations()[1:])


@pytest.mark.parametrize("name", described_generations())
def test_register_pages_give_place_bits_and_evidence(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, name, "--registers").splitlines()
    assert lines[0].split()[:7] == ["block", "address", "register", "field", "bits", "kind", "evidence"]
    assert any("InFmt" in line and "uint8" in line for line in lines)
    rows = json.loads(printed(capsys, name, "--registers", "--json"))
    assert len(rows) == len(lines) - 1
    assert {row["evidence"] for row in rows} <= {"proved", "seen", "inferred"}


def test_generations_without_tables_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no register is known" in printed(capsys, "h11", "--registers")
    assert "not known" in printed(capsys, "a13")


def test_what_works_is_found_not_typed(capsys: pytest.CaptureFixture[str]) -> None:
    documents = {d["generation"]: d for d in json.loads(printed(capsys, "--support", "--json"))}
    assert list(documents) == list(generations())
    for name, document in documents.items():
        works = {document[key] for key in ("read", "compiled", "verified", "simulated")}
        assert works == {name in compiled_generations()}, name
        assert {*document["modelled"], *document["extrapolated"]} == {soc.name for soc in chips_of(name)}
    assert "m4 max" in documents["h16"]["modelled"]
    assert "a17 pro" in documents["h16"]["extrapolated"]
    assert [name for name, document in documents.items() if document["driver"]] == ["h13"]
    lines = printed(capsys, "h18", "--support").splitlines()
    assert lines[1].split()[0] == "h18"
    assert any("is a guess" in line for line in lines)


def test_unknown_names_fail_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chips", "m7"]) == FAILED
    assert "hint" in capsys.readouterr().err


@pytest.mark.parametrize("name", described_generations())
def test_the_pages_in_docs_are_current(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`make docs` writes them."""
    assert (DOCS / "registers" / f"{name}.md").read_text() == printed(capsys, name, "--registers", "--markdown")


def test_the_page_of_generations_in_docs_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    """`make docs` writes it."""
    assert (DOCS / "generations.md").read_text() == printed(capsys, "--support", "--markdown")
