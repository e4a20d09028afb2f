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


@pytest.mark.parametrize(("inject", "line"), [
    ("missing-selector=evaluateWithQoS:options:request:error:",
     "-[_ANEInMemoryModel evaluateWithQoS:options:request:error:]: not there"),
    ("missing-class=_ANERequest", "+[_ANERequest requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:"
                                  "perfStats:procedureIndex:]: not there"),
    ("missing-function=e5rt_execution_stream_create", "e5rt: e5rt_execution_stream_create is not exported"),
])
def test_what_an_update_takes_away_is_named_and_nothing_else(inject: str, line: str) -> None:
    assert differences(surveyed(inject)) == [line]


def test_without_a_library_all_its_methods_are_named() -> None:
    known, found = surveyed(), surveyed("missing-library=AppleNeuralEngine")
    first, *others = differences(found)
    assert first.startswith("library AppleNeuralEngine: the stand-in does not load ")
    assert others == [f"{method.replace('[', f'[{name} ')}: not there" for name, methods in known["interfaces"].items()
                      for method in methods if method not in known["optional"].get(name, ())]
    assert len(others) > 10
    assert not any(found["methods"].values())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "survey.json"
    assert main(["doctor", "--survey", str(path), "--runtime", "simulated"]) == 0
    assert "every interface is as it is known" in capsys.readouterr().out
    assert json.loads(path.read_text())["platform"]["simulated"] is True
