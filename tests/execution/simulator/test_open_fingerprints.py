"""What no rule explains is listed, no case gets worse or is lost, and nothing explained is listed still."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fingerprints import EXPLAINED, OPEN, PROBES, Open, cases, everything, lines, listed, merged
from recipes.published import CLASSES, generations_of

from openane.chips import compiled_generations
from openane.chips.machines import find

WORSE = 0.1
"""Digits a case may lose: references in float32 are not the same on all machines."""
MOST = 99
"""Lines of the list: it may only shrink, and this with it."""
SURE = 12.0
"""Digits a case that is explained agrees in, values apart that are published with few."""


@pytest.fixture(scope="module")
def found() -> list[Open]:
    return list(cases())


def test_every_open_case_is_listed_and_none_is_worse(found: list[Open]) -> None:
    known = listed()
    for case in found:
        if case.digits >= EXPLAINED:
            assert case.key not in known, f"{case.key} is explained now: take it out of {OPEN.name}"
            assert case.digits >= SURE, case
            continue
        assert case.key in known, f"{case.key} is explained by nothing and not listed in {OPEN.name}"
        assert case.published == known[case.key].published
        assert case.digits >= known[case.key].digits - WORSE, f"worse than listed:\n{case}\n{known[case.key]}"


def test_no_case_is_lost_and_none_is_new(found: list[Open]) -> None:
    """Sizes that are not computed here are listed unless their operation is explained at the sizes that are."""
    known = listed()
    explained = {case.key for case in found if case.digits >= EXPLAINED}
    whole = {name for name, *_ in explained} - {case.name for case in found if case.digits < EXPLAINED}
    published = dict(everything())
    assert set(known) == {key for key in published if key not in explained and key[0] not in whole}
    assert {key: line.published for key, line in known.items()} == {key: published[key] for key in known}
    assert all(line.digits < EXPLAINED for line in known.values())
    assert len(lines(known)) <= MOST


def test_some_are_explained(found: list[Open]) -> None:
    explained = {case.key for case in found if case.digits >= EXPLAINED}
    assert {("relu", "all", "quick-256", generation) for generation in generations_of("all")} <= explained
    assert ("linear", "M1", "16*(4090,-b,1)", find("m1").generation) in explained
    assert {probe.where for probe in PROBES if probe.published in (5116, 4)} == {
        "4096+1024*1", *(f"16*({b},-b,1)" for b in (4096, 8000, 16000, 30000))}


def test_every_value_has_the_generations_of_its_chips(found: list[Open]) -> None:
    """And the list is written as the benchmark writes it."""
    computed: dict[tuple[str, str, str], list[str]] = {}
    for case in found:
        computed.setdefault((case.name, case.chips, case.size), []).append(case.generation)
    for (_, chips, _), generations in computed.items():
        assert generations == list(dict.fromkeys(find(chip).generation for chip in CLASSES.get(chips, (chips,))))
    assert {each for generations in computed.values() for each in generations} <= set(compiled_generations())
    text = [line for line in OPEN.read_text().splitlines() if not line.startswith("#")]
    assert text == [str(line) for line in lines(listed())]


def test_generations_with_equal_values_share_a_line() -> None:
    known = {key: Open(*key[:2], key[3], key[2], value, 2 * value + (key[3] == "h18"))
             for key, value in everything() if key[:3] == ("softmax", "B", "full-64")}
    assert [line.generation for line in lines(known)] == ["h16,h17", "h18"]


def test_writing_keeps_what_was_not_computed() -> None:
    known = listed()
    first, second, *_ = known.values()
    better = replace(first, ours=first.published * (1 + 1e-5))
    assert merged([better], known) == {**known, first.key: better}
    assert set(merged([replace(first, ours=first.published)], known)) == set(known) - {first.key}
    assert merged([], known) == known
    assert second.key in merged([better], known)


def test_writing_adds_nothing_of_itself() -> None:
    known = listed()
    stranger = Open("sum", "M9", "h99", "here", 1.0, 2.0)
    with pytest.raises(ValueError, match="may only shrink"):
        merged([stranger], known)
    assert merged([stranger], known, add=True) == {**known, stranger.key: stranger}
    assert merged([replace(stranger, ours=1.0)], known) == known
