"""What is said to be shown by records is, and the page of operations says it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.records import generation_words, record_words

import evidence
from openane.chips import DEFAULT_TARGET, compiled_generations, get_chip
from openane.engine import Operation
from openane.engine.forms import FORMS, forms
from openane.formats import load_program


def recorded(corpus: Path, name: str) -> Iterator[Operation]:
    """The operations of every record of a generation, and of the programs at hand for the oldest."""
    chip, oldest = get_chip(name), name == DEFAULT_TARGET
    for path in sorted((corpus / "apple" / ("oracles" if oldest else f"oracles_{name}")).rglob("*.json")):
        record = json.loads(path.read_text())
        words = [record_words(task) for task in record["tasks"]] if oldest else generation_words(record, name)
        yield from (chip.operation(each) for each in words)
    for path in sorted((corpus / "apple").rglob("*.hwx")) if oldest else ():
        program = load_program(path)
        yield from (chip.operation(task.words) for task in program.tasks if program.chip == name)


@pytest.mark.parametrize("name", compiled_generations())
def test_forms_that_records_show(corpus: Path, name: str) -> None:
    assert forms(recorded(corpus, name)) == get_chip(name).facts.shown <= set(FORMS)


def test_the_page_in_docs_is_current() -> None:
    """`make docs` writes it."""
    assert evidence.PAGE.read_text() == evidence.page()
