"""What no rule explains is listed, no case gets worse, and nothing explained is listed still."""

from __future__ import annotations

import pytest
from fingerprints import EXPLAINED, OPEN, PUBLISHED_ROWS, SMALL, Open, cases, listed

WORSE = 0.1
"""Digits a case may lose: references in float32 are not the same on all machines."""


@pytest.fixture(scope="module")
def found() -> list[Open]:
    return list(cases(SMALL))


def test_every_open_case_is_listed_and_none_is_worse(found: list[Open]) -> None:
    known = listed()
    for case in found:
        if case.digits >= EXPLAINED:
            assert case.key not in known, f"{case.key} is explained now: take it out of {OPEN.name}"
            continue
        assert case.key in known, f"{case.key} is explained by nothing and not listed in {OPEN.name}"
        assert case.published == known[case.key].published
        assert case.digits >= known[case.key].digits - WORSE, f"worse than listed:\n{case}\n{known[case.key]}"


def test_the_list_is_that_of_the_benchmark(found: list[Open]) -> None:
    values = {value for row in PUBLISHED_ROWS.values() for value in row} | {case.published for case in found}
    for line in listed().values():
        assert line.published in values, f"{line.key} is not a published case"
        assert line.digits < EXPLAINED
    assert any(case.digits >= EXPLAINED for case in found), "relu is explained by the rounding of its input"
