"""Surveys of the stand-in: what is there, what an update has changed, what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openane.cli import main
from openane.devices.macos.standin import SimulatedSymbols
from openane.doctor.survey import differences, survey


def surveyed(inject: str = "") -> dict:
    symbols = SimulatedSymbols(inject)
    try:
        return json.loads(json.dumps(survey(symbols)))
    finally:
        symbols.close()


def test_a_known_system_has_no_differences() -> None:
    found = surveyed()
    assert differences(found) == []
    expected, has = found["interfaces"]["_ANEInMemoryModel"]["-[evaluateWithQoS:options:request:error:]"]
    assert expected == "B@:I@@^@"
    assert has
    assert "-[evaluateWithQoS:options:request:error:]" in found["methods"]["_ANEInMemoryModel"]
    assert set(found["probes"]) == {"chaining", "events", "counters"}


@pytest.mark.parametrize(("inject", "text"), [
    ("missing-selector=evaluateWithQoS:options:request:error:", "-[_ANEInMemoryModel evaluateWithQoS"),
    ("missing-class=_ANERequest", "+[_ANERequest requestWithInputs"),
    ("missing-function=e5rt_execution_stream_create", "e5rt: e5rt_execution_stream_create is not exported"),
    ("missing-library=AppleNeuralEngine", "library AppleNeuralEngine"),
])
def test_what_an_update_takes_away_is_named(inject: str, text: str) -> None:
    assert any(text in line for line in differences(surveyed(inject)))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "survey.json"
    assert main(["doctor", "--survey", str(path), "--runtime", "simulated"]) == 0
    assert "every interface is as it is known" in capsys.readouterr().out
    assert json.loads(path.read_text())["platform"]["simulated"] is True
