"""Counts that the documentation states are those that the package and the zoo's record give."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from openane.cli.ops import document
from openane.ops import all_ops

ROOT = Path(__file__).parents[2]
STATUS = (ROOT / "docs" / "status.md").read_text()


def stated(page: str, pattern: str) -> int:
    """The number that `pattern` finds in a page; it must be there, so that no rewording ends the comparison."""
    [number] = re.findall(pattern, page)
    return int(number)


def test_operations_are_as_many_as_stated() -> None:
    assert stated(STATUS, r"\| (\d+) operations, MIL's") == len(all_ops())


def test_gradients_are_as_many_as_stated() -> None:
    kinds = Counter(document(op)["gradient"] for op in all_ops().values())
    assert stated(STATUS, r"gradients of (\d+) operations") == kinds["rule"] + kinds["of its parts"]
    without = [name for name, op in all_ops().items() if document(op)["gradient"] == "none"]
    assert without == ["lut_activation", "roi_align"]
    assert "of the others all but `lut_activation` and `roi_align` end them by nature" in STATUS


def test_models_that_were_tried_are_as_many_as_stated() -> None:
    tried = stated((ROOT / "docs" / "zoo.md").read_text(), r"(?m)^\| all \| (\d+) \|")
    for page in ("README.md", "docs/status.md"):
        hundreds = stated((ROOT / page).read_text(), r"[Mm]ore than (\d+) networks")
        assert hundreds < tried <= hundreds + 100
