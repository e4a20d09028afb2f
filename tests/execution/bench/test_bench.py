"""`ane bench`: probes on a device, baselines, and published tables beside the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openane.bench import PROBES, PUBLISHED, measure, reproduce, surety, target_of
from openane.bench.probes import Metric
from openane.cli import main
from openane.devices import open_device
from openane.timing import SubmissionRoute


def test_a_probe_is_measured_modelled_and_run_on_the_host() -> None:
    probe = next(each for each in PROBES if each.group == "dispatch")
    with open_device("simulator") as device:
        found = measure(probe, device, "m1", SubmissionRoute.MACOS)
        on_linux = measure(probe, device, "m1", SubmissionRoute.LINUX)
    assert found.error == ""
    assert found.device
    assert found.host
    assert found.modelled == pytest.approx(190, rel=0.02)  # nothing but the published dispatch
    assert on_linux.modelled == pytest.approx(25, rel=0.05)


def test_probes_are_planned_for_the_device_or_the_chip() -> None:
    probe = next(each for each in PROBES if each.group == "dispatch")
    with open_device("simulator") as device:
        assert [target_of(device, chip) for chip in ("m1", "m4 max", "a12")] == ["h13", "h16", "h13"]
        assert measure(probe, device, "m4 max", SubmissionRoute.MACOS).known == "modelled"
    with open_device("simulator:h14") as device:
        assert target_of(device, "m4 max") == "h14"
        found = measure(probe, device, "m4 max", SubmissionRoute.MACOS)
        assert (found.error, found.known) == ("", "extrapolated")


def test_chaining_saves_the_host_nothing_less() -> None:
    fusion = {each.name: each for each in PROBES if each.group == "fusion"}
    with open_device("simulator") as device:
        found = {name: measure(probe, device, "m1", SubmissionRoute.MACOS) for name, probe in fusion.items()}
    assert not [each.error for each in found.values() if each.error]
    one, *two = (each.modelled or 0 for each in found.values())
    assert all(each > 1.9 * one for each in two)


def test_metrics_divide_the_right_way() -> None:
    for probe in PROBES:
        assert (probe.metric is Metric.TIME) == (probe.amount == 0), probe.name
    assert len({probe.name for probe in PROBES}) == len(PROBES)


def test_published_tables_are_reproduced_within_a_factor_of_two() -> None:
    rows = list(reproduce())
    assert len(rows) == len(PUBLISHED)
    for each in rows:
        assert 0.5 < each.ratio < 2, each.row
        assert each.known == "modelled", "planned for an M4 Max's own generation"


def test_rows_the_model_was_fitted_to_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "published.json"
    assert main(["bench", "--published", "--save", str(kept)]) == 0
    text = capsys.readouterr().out
    document = json.loads(kept.read_text())
    free = [row["what"] for row in document["rows"] if not row["fitted"]]
    assert len(free) == 2
    assert text.count("  fitted\n") == len(document["rows"]) - len(free)
    assert all(note in text for note in document["notes"].values())
    assert document["geomean_factor"]["not_fitted"] > 1
    assert main(["bench", "--published", "--compare", str(kept)]) == 1
    assert "--compare" in capsys.readouterr().err


@pytest.mark.parametrize(("chip", "route", "target", "known"), [
    ("m1", SubmissionRoute.MACOS, "h13", "modelled"), ("m1", SubmissionRoute.LINUX, "h13", "modelled"),
    ("m4 max", SubmissionRoute.LINUX, "h13", "extrapolated"), ("m1 pro", SubmissionRoute.LINUX, "h13", "extrapolated"),
    ("m1", SubmissionRoute.MACOS, "h14", "extrapolated"), ("m4 max", SubmissionRoute.MACOS, None, "modelled"),
    ("m4 max", SubmissionRoute.LINUX, None, "extrapolated"), ("m5", SubmissionRoute.MACOS, None, "extrapolated"),
    ("a12", SubmissionRoute.ENGINE, None, "extrapolated")])
def test_what_is_modelled_and_what_extrapolated(chip: str, route: SubmissionRoute, target: str | None,
                                                known: str) -> None:
    assert surety(chip, route, target) == known


def test_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "baseline.json"
    assert main(["bench", "--only", "dispatch", "--save", str(kept), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {row["group"] for row in plain["probes"]} == {"dispatch"}
    assert json.loads(kept.read_text()) == plain
    assert main(["bench", "--only", "dispatch", "--compare", str(kept)]) == 0
    shown = capsys.readouterr()
    assert "to baseline" in shown.out
    assert "another device" not in shown.err
    kept.write_text(json.dumps({**plain, "device": "toaster"}))
    assert main(["bench", "--only", "dispatch", "--compare", str(kept), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["baseline"] == {"device": "toaster", "same_device": False}
    assert "another device (toaster)" in shown.err
    kept.write_text("[]")
    assert main(["bench", "--only", "dispatch", "--compare", str(kept)]) == 1
    assert "no baseline" in capsys.readouterr().err
    assert main(["bench", "--chip", "toaster", "--only", "dispatch"]) == 1
