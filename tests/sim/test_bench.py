"""`ane bench`: probes on a device, baselines, and published tables beside the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openane.bench import PROBES, PUBLISHED, measure, reproduce
from openane.bench.probes import Metric
from openane.cli import main
from openane.devices import open_device
from openane.timing import Route


def test_a_probe_is_measured_modelled_and_run_on_the_host() -> None:
    probe = next(each for each in PROBES if each.group == "dispatch")
    with open_device("simulator") as device:
        found = measure(probe, device, "m1", Route.MACOS)
        on_linux = measure(probe, device, "m1", Route.LINUX)
    assert found.error == ""
    assert found.device
    assert found.host
    assert found.modelled == pytest.approx(190, rel=0.02)  # nothing but the published dispatch
    assert on_linux.modelled == pytest.approx(25, rel=0.05)


def test_chaining_saves_the_host_nothing_less() -> None:
    fusion = {each.name: each for each in PROBES if each.group == "fusion"}
    with open_device("simulator") as device:
        found = {name: measure(probe, device, "m1", Route.MACOS) for name, probe in fusion.items()}
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


def test_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "baseline.json"
    assert main(["bench", "--only", "dispatch", "--save", str(kept), "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert {row["group"] for row in plain["probes"]} == {"dispatch"}
    assert json.loads(kept.read_text()) == plain
    assert main(["bench", "--only", "dispatch", "--compare", str(kept)]) == 0
    assert "to baseline" in capsys.readouterr().out
    kept.write_text("[]")
    assert main(["bench", "--only", "dispatch", "--compare", str(kept)]) == 1
    assert "no baseline" in capsys.readouterr().err
    assert main(["bench", "--chip", "toaster", "--only", "dispatch"]) == 1
