"""Profiles of compiled models: table, CSV, JSON and trace say the same, and every number what it is."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.cli import main
from openane.cli.profile import subject_of
from openane.ops.build import GraphBuilder
from openane.report import Kind, Profile, Subject, as_csv, document, profile, summary, table, trace
from openane.timing import Route, State

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def model() -> ane.Model:
    return ane.compile(ane.load_graph(DIGITS))


@pytest.fixture(scope="module")
def found(model: ane.Model) -> Profile:
    return profile(subject_of(model), "m1")


def test_totals_agree_between_all_forms(found: Profile) -> None:
    plain = json.loads(json.dumps(document(found)))
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    events = trace(found)["traceEvents"]
    tasks = [event for event in events if event["ph"] == "X" and event["tid"] in (2, 3) and event["pid"] == 2]
    engine = found.engine_seconds * 1e6
    assert len(lines) == len(tasks) == len(plain["rows"]) == len(found.rows) == plain["tasks"]
    for total in (sum(float(line["time_us"]) for line in lines), sum(event["dur"] for event in tasks),
                  sum(row["time_us"] for row in plain["rows"]), plain["engine_us"],
                  sum(plain["time_by_engine_us"].values()), sum(plain["time_by_part_us"].values()),
                  sum(plain["time_by_node_us"].values())):
        assert total == pytest.approx(engine)
    assert plain["time_us"] == pytest.approx(engine + plain["dispatch_us"])
    assert max(event["ts"] + event.get("dur", 0) for event in events if event["ph"] != "M") == \
        pytest.approx(plain["time_us"])
    assert sum(int(line["kernel_bytes"]) for line in lines) == plain["bytes"]["coefficients"]
    assert len(table(found, None)[1]) == len(found.rows)
    assert f"{plain['time_us']:.1f} us" in "\n".join(summary(found))


def test_tasks_lead_to_the_nodes_of_the_model(found: Profile, model: ane.Model) -> None:
    assert all(row.node for row in found.rows)
    assert {row.node for row in found.rows} <= {entry.operation for entry in model.report}
    assert [row.node for row in found.rows if "ONNX Conv 'conv2'" in row.node]


def test_what_numbers_are(model: ane.Model) -> None:
    subject = subject_of(model)
    assert profile(subject, "m1").time_kind is Kind.MODELLED
    assert profile(subject, "m4").time_kind is Kind.EXTRAPOLATED  # planned for h13
    assert profile(subject, "a14").time_kind is Kind.EXTRAPOLATED  # its tile path is guessed
    text = "\n".join(summary(profile(subject, "m4")))
    assert "times extrapolated" in text
    assert "(exact)" in text


def test_routes_and_clocks(model: ane.Model) -> None:
    subject = subject_of(model)
    engine = profile(subject, "m1", Route.ENGINE)
    assert engine.seconds == engine.engine_seconds
    assert profile(subject, "m1", Route.MACOS).seconds > profile(subject, "m1", Route.LINUX).seconds > engine.seconds
    assert profile(subject, "m1", Route.ENGINE, State.LOWEST).seconds > 2 * engine.seconds


def test_two_programs_follow_each_other() -> None:
    build = GraphBuilder()
    graph = build.finish({"y": build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))})
    program = ane.compile(graph).program
    twice = profile(Subject("twice", "h13", (program, program)), "m1")
    once = profile(Subject("once", "h13", (program,)), "m1")
    assert twice.seconds == pytest.approx(2 * once.seconds)
    assert [row.program for row in twice.rows] == [0, 1]
    assert twice.rows[1].start == pytest.approx(once.seconds + twice.dispatch)
    assert twice.subject.memory()["inputs"] == once.subject.memory()["inputs"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(DIGITS), "--trace", str(tmp_path / "t.json"), "--csv", str(tmp_path / "t.csv"),
                 "--json", "--no-cache"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["chip"] == "m1"
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert len((tmp_path / "t.csv").read_text().splitlines()) == plain["tasks"] + 1
    assert main(["profile", str(DIGITS), "--chip", "toaster", "--no-cache"]) == 1
    assert "no machine, chip or generation" in capsys.readouterr().err
    assert np.isclose(sum(row["share"] for row in plain["rows"]), 1)
