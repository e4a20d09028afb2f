"""Profiles of compiled models: table, CSV, JSON and trace say the same, and every number what it is."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.chips import get_chip
from openane.chips.machines import SOCS, Known
from openane.cli import main
from openane.cli.profile import subject_of
from openane.ops.build import GraphBuilder
from openane.report import NumberKind, Profile, ProfileSubject, as_csv, document, html, profile, summary, table, trace
from openane.report.places import places, verdict
from openane.timing import ClockState, EnginePart, SubmissionRoute, dispatch

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


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
    tasks = [event for event in events if event["ph"] == "X" and "task" in event["args"]]
    engine = found.engine_seconds * 1e6
    assert len(lines) == len(tasks) == len(plain["rows"]) == len(found.rows) == plain["tasks"]
    for total in (sum(float(line["time_us"]) for line in lines), sum(event["args"]["time_us"] for event in tasks),
                  sum(row["time_us"] for row in plain["rows"]), plain["engine_us"],
                  sum(plain["time_by_engine_us"].values()), sum(plain["time_by_part_us"].values()),
                  sum(plain["time_by_node_us"].values())):
        assert total == pytest.approx(engine)
    assert plain["time_us"] == pytest.approx(engine + plain["dispatch_us"])
    assert max(event["ts"] + event.get("dur", 0) for event in events if event["ph"] != "M") == \
        pytest.approx(plain["time_us"], abs=1e-3)
    assert sum(int(line["kernel_bytes"]) for line in lines) == plain["bytes"]["coefficients"]
    assert len(table(found, None)[1]) == len(found.rows)
    assert f"{plain['time_us']:.1f} us" in "\n".join(summary(found))


def test_tasks_lead_to_the_nodes_of_the_model(found: Profile, model: ane.Model) -> None:
    assert all(row.node for row in found.rows)
    assert {row.node for row in found.rows} <= {entry.operation for entry in model.report}
    assert [row.node for row in found.rows if "ONNX Conv 'conv2'" in row.node]


def test_every_time_says_what_it_is(model: ane.Model) -> None:
    subject = subject_of(model)
    order = list(NumberKind)
    for soc in SOCS:
        found = profile(subject, soc.name)
        guessed = dispatch(soc.name, SubmissionRoute.MACOS, found.engine_seconds).known is Known.GUESS
        assert (found.dispatch_kind is NumberKind.EXTRAPOLATED) == guessed, soc.name
        sure = soc.generation == "h13" and not found.rates.guessed
        assert found.engine_kind is (NumberKind.MODELLED if sure else NumberKind.EXTRAPOLATED), soc.name
        assert order.index(found.time_kind) == max(map(order.index, (found.engine_kind, found.dispatch_kind)))
        last = list(summary(found))[-1]
        assert f"one inference: {found.seconds * 1e6:.1f} us ({found.time_kind})" in last
        assert f"us ({found.engine_kind}) + dispatch" in last
        assert f"(macos, {found.dispatch_kind})" in last
        assert document(found)["kinds"] == {
            "counts": "exact", "memory": "exact", "bytes": "modelled", "engine": str(found.engine_kind),
            "dispatch": str(found.dispatch_kind), "times": str(found.time_kind)}
        traced = trace(found)
        assert {event["args"]["kind"] for event in traced["traceEvents"] if event["name"].startswith("dispatch pro")} \
            == {str(found.dispatch_kind)}
        assert any(event["args"].get("name") == f"engine of {soc.name} ({found.engine_kind})"
                   for event in traced["traceEvents"])


def test_a_plan_for_another_generation_is_said_to_be_one(model: ane.Model) -> None:
    subject = subject_of(model)
    for chip, said in (("m1", False), ("m1 pro", False), ("m4", True)):
        found = profile(subject, chip)
        words = "planned for h13: tasks, bytes and multiplications are of that plan"
        assert (words in "\n".join(summary(found))) is said
        assert any("planned for h13" in note for note in document(found)["notes"]) is said


def test_a_model_is_planned_for_the_chip_it_is_profiled_on(capsys: pytest.CaptureFixture[str]) -> None:
    planned = (("m4 max", "h16", "modelled"), ("m2", "h14", "modelled"), ("m6", "h18", "modelled"),
               ("m5", "h17", "extrapolated"), ("m3", "h15", "extrapolated"), ("a12", "h13", "extrapolated"))
    for chip, target, kind in planned:
        assert main(["profile", str(DIGITS), "--chip", chip, "--json", "--no-cache"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["target"], found["kinds"]["engine"]) == (target, kind), chip
        assert any("planned for" in note for note in found["notes"]) is (found["generation"] != target)
    assert main(["profile", str(DIGITS), "--chip", "m4", "--target", "m1", "--no-cache"]) == 0
    assert "planned for h13" in capsys.readouterr().out


def test_a_table_of_later_generations_is_read_once() -> None:
    """All cores of H13 have a copy of their own."""
    build = GraphBuilder()
    graph = build.finish({"y": build.single("sigmoid", x=build.input("x", "fp16", (1, 64, 8, 8)))})
    sizes = {}
    for target, chip in (("h13", "m1"), ("h14", "m2"), ("h16", "m4"), ("h18", "m6")):
        model = ane.compile(graph, target=target)
        found = profile(subject_of(model), chip)
        limits = get_chip(target).limits.coefficients
        copies = 1 if limits.table_apart else limits.cores
        assert sum(row.kernel_bytes for row in found.rows) == copies * limits.table.size, target
        sizes[target] = found.engine_seconds
    assert all(sizes.values())


def test_a_name_of_several_chips_says_which_was_taken(model: ane.Model) -> None:
    found = profile(subject_of(model), "MacBook Pro 2021")
    assert "MacBook Pro 2021 stands for several chips: m1 pro is taken, not m1 max" in "\n".join(summary(found))
    assert document(found)["choices"] == ["m1 pro", "m1 max"]
    assert document(profile(subject_of(model), "m1 pro"))["notes"] == []


@pytest.mark.parametrize("name", ["h13", "H13", "h-13", "h16", "H16"])
def test_a_generation_is_named_in_any_spelling(model: ane.Model, name: str) -> None:
    found = profile(subject_of(model), name)
    assert found.rates.chip == {"h13": "m1", "h16": "m4"}[name.lower().replace("-", "")]
    assert f"{name} stands for several chips: {found.rates.chip} is taken" in "\n".join(summary(found))


def test_a_guess_stays_one_at_every_clock(model: ane.Model) -> None:
    for state in ClockState:
        assert profile(subject_of(model), "a14", state=state).engine_kind is NumberKind.EXTRAPOLATED
        assert profile(subject_of(model), "m1", state=state).engine_kind is NumberKind.MODELLED


def held() -> Profile:
    """A convolution in several tasks with the same coefficients."""
    build = GraphBuilder()
    weight = np.random.default_rng(0).standard_normal((32, 32, 1, 1)).astype(np.float16)
    x = build.input("x", "fp16", (1, 32, 1, 40000))
    model = ane.compile(build.finish({"y": build.single("conv", x=x, weight=weight)}))
    return profile(subject_of(model), "m1")


def test_coefficients_that_are_held_are_not_moved() -> None:
    found = held()
    assert len(found.rows) > 1
    fetched = 32 * 32 * 2
    assert found.rows[0].kernel_bytes == found.rows[1].held_bytes == fetched
    assert found.rows[1].kernel_bytes == 0
    plain = document(found)
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    slices = [event["args"]["bytes"] for event in trace(found)["traceEvents"]
              if event["ph"] == "X" and event["name"].startswith("coefficients")]
    page = html.gathered(found)
    (card,) = [card["value"] for card in page["cards"] if card["title"] == "Moved: coefficients"]
    column = page["columns"].index("kernel_bytes")
    assert [plain["bytes"]["coefficients"], sum(int(line["kernel_bytes"]) for line in lines), sum(slices), card,
            sum(row[column] for row in page["rows"])] == [fetched] * 5
    assert sum(int(line["held_bytes"]) for line in lines) == plain["held_bytes"] == fetched * (len(found.rows) - 1)
    assert "moved (modelled): coefficients 2.0 KiB" in "\n".join(summary(found))
    assert "held from the task before" in "\n".join(summary(found))


@pytest.mark.parametrize("chip", ["m1", "m4", "m5", "m6"])
def test_no_resource_needs_longer_than_the_engine_takes(model: ane.Model, chip: str) -> None:
    build = GraphBuilder()
    weight = np.random.default_rng(0).standard_normal((256, 256, 3, 3)).astype(np.float16)
    x = build.input("x", "fp16", (1, 256, 32, 32))
    wide = ane.compile(build.finish({"y": build.single("conv", x=x, weight=weight, pad_type="same")}))
    for made in (model, wide):
        found = profile(subject_of(made), chip)
        assert set(found.roofline()) == set(map(str, EnginePart))
        assert 0 < found.efficiency() <= 1


def test_the_roofline_names_the_resource_that_limits() -> None:
    """Unary operations on a tensor that stays in L2 keep L2 busy, hardly memory."""
    build = GraphBuilder()
    value = build.input("x", "fp16", (1, 64, 32, 32))
    for _ in range(12):
        value = build.single("softmax", x=build.single("add", x=value, y=value), axis=1)
    found = profile(subject_of(ane.compile(build.finish({"y": value}))), "m1")
    busy = {str(part): sum(program.busy(part) for program in found.programs) for part in EnginePart}
    limit, seconds = found.limit()
    assert limit == max(busy, key=lambda part: busy[part]) in ("l2", "planar")
    assert seconds == pytest.approx(busy[limit])
    assert f"roofline (modelled): {limit} alone needs" in "\n".join(summary(found))


def test_what_the_host_computes_has_no_time_and_that_is_said() -> None:
    build = GraphBuilder()
    first = build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))
    product = build.single("local_response_norm", x=first, size=2)
    model = ane.compile(build.finish({"y": build.single("add", x=first, y=product)}), allow_host=True)
    found = profile(subject_of(model), "m1")
    words = "without 1 host operation, whose time is not modelled"
    assert list(summary(found))[-1].endswith(words)
    assert document(found)["times_without"] == trace(found)["metadata"]["times_without"] == words
    assert "time of 1 operation on the host is not in" in verdict(places(found), len(found.subject.host))
    assert profile(ProfileSubject("none", "h13", ()), "m1").without == ""


def test_routes_and_clocks(model: ane.Model) -> None:
    subject = subject_of(model)
    engine = profile(subject, "m1", SubmissionRoute.ENGINE)
    assert engine.seconds == engine.engine_seconds
    macos, linux = (profile(subject, "m1", route) for route in (SubmissionRoute.MACOS, SubmissionRoute.LINUX))
    assert macos.seconds > linux.seconds > engine.seconds
    assert profile(subject, "m1", SubmissionRoute.ENGINE, ClockState.LOWEST).seconds > 2 * engine.seconds


def test_two_programs_follow_each_other() -> None:
    build = GraphBuilder()
    graph = build.finish({"y": build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))})
    program = ane.compile(graph).program
    twice = profile(ProfileSubject("twice", "h13", (program, program)), "m1")
    once = profile(ProfileSubject("once", "h13", (program,)), "m1")
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
    for name in ("toaster", ""):
        assert main(["profile", str(DIGITS), "--chip", name]) == 1
        assert "no machine, chip or generation" in capsys.readouterr().err
    assert np.isclose(sum(row["share"] for row in plain["rows"]), 1)
