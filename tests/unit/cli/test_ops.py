"""`ane ops`: the list, one operation, the support page in docs, and unknown names."""

import json
from pathlib import Path

import pytest

from openane.cli import main
from openane.ops import all_ops

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"


def test_the_list_names_every_operation_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["operation"] for document in documents] == list(all_ops())
    assert all(document["evidence"] in ("apple", "composed", "inferred", "folded") for document in documents)


def test_rules_are_sentences_with_the_chips_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--json"]) == 0
    rules = [rule for document in json.loads(capsys.readouterr().out) for rule in document["rules"]]
    assert all(rule[0].isupper() or rule.split()[0].isidentifier() for rule in rules)
    assert all(rule.endswith(".") for rule in rules)
    assert not any("{" in rule for rule in rules)


def test_one_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "softmax"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("softmax(x, axis=-1")
    assert "Tensors must have at most 5 dimensions." in text


def test_an_unknown_operation_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "sofmax"]) == 1
    assert "softmax" in capsys.readouterr().err


def test_the_page_in_docs_is_current(capsys: pytest.CaptureFixture[str]) -> None:
    """`make docs` writes it."""
    assert main(["ops", "--markdown"]) == 0
    assert PAGE.read_text() == capsys.readouterr().out
