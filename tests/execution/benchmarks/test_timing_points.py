"""The timing benchmark reads other people's points, in many forms, and never ends in a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timing import evaluate
from timing_points import UnknownPointError, load, point
from timing_programs import MAKERS, planned

LAYER: dict[str, Any] = {"op": "conv1x1", "C": 64, "H": 8, "W": 8}


def entry(**given: Any) -> dict[str, Any]:
    return {"source": "a test", "chip": "M1", "generation": "H13", "kind": "conv", "params": LAYER, "value": 0.25,
            "unit": "ms", "notes": "", **given}


@pytest.mark.parametrize(("value", "unit"), [(250, "us"), (250.0, "µs"), ("0.25", "ms"), (0.00025, "s"),
                                             (250000, "ns"), ([0.125, 0.5], "ms")])
def test_units_of_time_are_one(value: object, unit: str) -> None:
    assert point(entry(value=value, unit=unit)).value == pytest.approx(0.25)


def test_a_rate_is_a_time_once_the_work_is_known() -> None:
    plan = planned(LAYER)
    assert plan.amount("multiplications") == 64 * 64 * 64
    timed = evaluate([entry(value=plan.amount("operations") / 1e12 / 0.25e-3, unit="TFLOPS")])
    assert timed["worst"][0]["measured"] == pytest.approx(0.25)
    assert timed["geomean_factor"] == pytest.approx(evaluate([entry()])["geomean_factor"])


@pytest.mark.parametrize(("chip", "generation", "found"), [
    ("M4 Pro", "H16s", "m4 pro"), ("A17 Pro", "", "a17 pro"), ("Apple M1 Max", "-", "m1 max"), ("M1 Air", "", "m1"),
    ("", "H16s", "m4 pro"), (None, "h13", "a14"), ("MacBook Air 2020", None, "m1")])
def test_chips_by_their_names(chip: str | None, generation: str | None, found: str) -> None:
    assert point(entry(chip=chip, generation=generation)).chip == found


@pytest.mark.parametrize("wrong", [
    {"chip": "M99"}, {"chip": "MacBook Pro 2024"}, {"value": None}, {"value": -1}, {"value": True}, {"value": 1e300},
    {"value": []}, {"unit": "parsec"}, {"unit": None}, {"kind": "training_step"}, {"params": [1]}, {"params": {}}])
def test_what_cannot_be_scored_says_why(wrong: dict[str, Any]) -> None:
    result = evaluate([entry(), entry(**wrong)])
    assert result["scored"] == 1
    assert list(result["not_scored"].values()) == [1]


@pytest.mark.parametrize("params", [
    {"op": "depthwise_conv", "C": 16, "H": 8, "W": 8, "kh": 3}, {"op": "depthwise3x3", "C": 16, "H": 8, "W": 8},
    {"op": "max_pool", "k": 2, "stride": 2, "C": 16, "H": 8, "W": 8}, {"op": "softmax", "shape": [16, 64]},
    {"op": "reduce_mean", "elems": 4096}, {"op": "matmul", "M": "32", "K": 32.0, "N": 32}, {"op": "add", "elems": 4096},
    {"op": "conv", "kh": 3, "kw": 1, "C": 16, "H": 8, "W": 8, "stride": 2}, {"op": "8x conv1x1 C64 sp64"},
    {"op": "batch_matmul", "batch": 2, "M": 16, "K": 16, "N": 16}, {"op": "conv1x1", "C": 64, "W": 8, "io_fp32": True}])
def test_kinds_of_operations_are_planned(params: dict[str, Any]) -> None:
    kind = "peak" if str(params["op"]).startswith("8x") else "any"
    assert evaluate([entry(kind=kind, params=params)])["scored"] == 1


def test_sizes_nobody_can_plan_are_refused_before_they_are_allocated() -> None:
    for params in ({"C": 1 << 40}, {"C": 1 << 15, "H": 1 << 15}, {"C": 0}, {"C": True}, {"C": {}}):
        with pytest.raises(UnknownPointError):
            planned({**LAYER, **params})


NAMES = st.sampled_from(["op", "C", "H", "W", "M", "K", "N", "Cin", "elems", "machine", "depth", "path", "shape"])
ODD = st.one_of(st.none(), st.booleans(), st.integers(-4, 1 << 80), st.floats(), st.text(max_size=4),
                st.sampled_from([*MAKERS, "9x conv1x1 C9 sp9"]), st.lists(st.integers(-1, 3), max_size=2))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(ODD, st.dictionaries(
    st.sampled_from(["source", "chip", "generation", "kind", "params", "value", "unit", "notes"]),
    st.one_of(ODD, st.sampled_from(["M4", "ms", "conv", "h13"]), st.dictionaries(NAMES, ODD)))), max_size=4))
def test_nothing_in_a_file_ends_in_a_traceback(entries: list[Any]) -> None:
    result = evaluate(entries)
    assert result["scored"] + result["fitted"]["points"] + sum(result["not_scored"].values()) == len(entries)
    json.dumps(result)


@pytest.mark.parametrize("text", ["", "{", "5", '{"data": []}', "[" * 10000, "\x00"])
def test_files_that_hold_no_points(tmp_path: Path, text: str) -> None:
    path = tmp_path / "points.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"JSON|no list of points"):
        load(path)
    with pytest.raises(ValueError, match="No such file"):
        load(tmp_path / "none.json")


def test_data_that_differ_more_than_the_aim_say_so() -> None:
    quiet = [entry(source=f"session {number}", value=0.2 + number / 100) for number in range(3)]
    assert not evaluate(quiet)["groups"]["h13 conv"]["explained"]
    mixed = evaluate([*quiet, entry(source="slow", value=0.9)])
    group = mixed["groups"]["h13 conv"]
    assert group["repeat"] > 1.25
    assert "slow" in group["explained"]
    assert "session" not in group["explained"].split("farthest")[1]
    assert mixed["worst"][0]["measured_elsewhere"] == pytest.approx([0.2, 0.21, 0.22])
