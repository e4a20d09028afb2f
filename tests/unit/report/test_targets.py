"""Operations side by side: which targets have them, and where they differ."""

from __future__ import annotations

from typing import Any, cast

from openane.report.profile import Profile
from openane.report.targets import PlacedOperation, TargetResult, operation_rows, targets_document

PROFILE = cast(Profile, object())
"""Only whether there is one matters here."""


def result(name: str, *operations: tuple[str, str, int], **more: Any) -> TargetResult:
    return TargetResult(name, name, (), PROFILE, tuple(PlacedOperation(*each) for each in operations), **more)


def test_operations_differ_in_tasks_in_place_or_where_one_is_missing() -> None:
    first = result("h13", ("a", "engine", 2), ("b", "fused", 0), ("c", "engine", 1), ("d", "engine", 3))
    second = result("h16", ("a", "engine", 1), ("b", "fused", 0), ("e", "free", 0), ("c", "host", 0),
                    ("d", "engine", 3))
    rows = {row.operation: row for row in operation_rows([first, second])}
    assert list(rows) == ["a", "b", "c", "d", "e"]
    assert {name: row.places for name, row in rows.items()} == {
        "a": (2, 1), "b": ("fused", "fused"), "c": (1, "host"), "d": (3, 3), "e": ("-", "free")}
    assert [name for name, row in rows.items() if row.differs] == ["a", "c", "e"]


def test_a_target_that_refuses_has_a_row_and_no_column() -> None:
    refused = TargetResult("m1", "h13", ("m1",), refusal="too wide")
    document = targets_document([refused])
    assert document["targets"] == [{"target": "m1", "generation": "h13", "chips": ["m1"], "function": None,
                                    "refused": "too wide"}]
    assert document["columns"] == document["operations"] == []
    assert [row.places for row in operation_rows([refused, result("h16", ("a", "engine", 1))])] == [(1,)]


def test_functions_are_told_apart_in_headings() -> None:
    assert [result("m4", function=name).label for name in ("", "decode")] == ["m4", "m4 decode"]
