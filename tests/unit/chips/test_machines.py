"""Machines, chips and generations: names, figures and how they are known."""

from __future__ import annotations

import pytest

from openane.chips import compiled_generations, described_generations, generations, recognised_generations
from openane.chips.machines import ALL, MACHINES, SOCS, Known, chips_of, find, machines_with, named_targets
from openane.errors import UnsupportedError


@pytest.mark.parametrize(("name", "generation", "chips"), [
    ("MacBook Air 2022", "h14", ["m2"]), ("macbook air 2022", "h14", ["m2"]), ("M2", "h14", ["m2"]),
    ("m1-ultra", "h13", ["m1 ultra"]), ("iPhone 15 Pro", "h16", ["a17 pro"]), ("H17", "h17", None),
    ("Mac mini 2023", "h14", ["m2", "m2 pro"]), ("a12", "h11", ["a12"])])
def test_machine_chip_and_generation_names_are_found(name: str, generation: str, chips: list[str] | None) -> None:
    found = find(name)
    assert found.generation == generation
    assert [soc.name for soc in found.chips] == (chips or [soc.name for soc in chips_of(generation)])


@pytest.mark.parametrize(("name", "hint"), [
    ("macbok air 2022", "'MacBook Air 2022'"), ("m1 mx", "'m1 max'"), ("zzz", "ane chips"),
    ("Mac Studio 2025", "name the chip"), ("", "ane chips")])
def test_other_names_teach(name: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=hint):
        find(name)


def test_every_name_leads_to_a_generation() -> None:
    assert generations() == (*recognised_generations(), *described_generations())
    names = [soc.name for soc in SOCS]
    assert len(set(names)) == len(names)
    for machine, chips in MACHINES.items():
        assert set(chips) <= set(names), machine
        if len({soc.generation for soc in SOCS if soc.name in chips}) == 1:
            assert find(machine).generation == next(soc.generation for soc in SOCS if soc.name == chips[0])
    assert "MacBook Air 2022" in machines_with(find("m2").chips)


@pytest.mark.parametrize(("chip", "trillions"), [
    ("a12", 5), ("m1", 11), ("m2", 15.8), ("a16", 17), ("a17 pro", 35 / 2), ("m4", 38 / 2)])
def test_clocks_reproduce_the_peaks_apple_states(chip: str, trillions: float) -> None:
    """Within 7 %: the clock table puts A14 and M1 at 11.7 where Apple says 11. From A17 Apple counts 8-bit work."""
    peak = find(chip).chips[0].peak
    assert peak.known is Known.DERIVED
    assert peak.value == pytest.approx(trillions, rel=0.07)


def test_what_is_not_known_says_so() -> None:
    assert find("a19").chips[0].peak.value is None
    assert str(find("a19").chips[0].clock) == "not known"
    assert all((figure.value is None) == (figure.known is None) for soc in SOCS
               for figure in (soc.cores, soc.clock, soc.kernel, soc.tile, soc.dispatch, soc.peak))


def test_targets_are_named_between_commas_one_by_one_or_all() -> None:
    assert named_targets("all") == named_targets(["ALL"]) == compiled_generations()
    assert named_targets("m1, m4 max") == named_targets(["m1", "m4 max"]) == ("m1", "m4 max")
    assert named_targets(["M-1", "m1,h16", "MacBook Air 2022"]) == ("M-1", "h16", "MacBook Air 2022")  # each once
    assert named_targets(["h15", "all"]) == ("h15", "h13", "h14", "h16", "h17", "h18")
    for wrong in ("m1,", "", "m1,,m4", "m1,m99", "a12"):
        with pytest.raises(UnsupportedError):
            named_targets(wrong)
    with pytest.raises(UnsupportedError, match="at least one"):
        named_targets([])


def test_no_name_can_be_taken_for_several() -> None:
    for name in (*MACHINES, *(soc.name for soc in SOCS), *generations()):
        assert "," not in name
        assert name.lower() != ALL
