"""The data of a report: it agrees with every other form of the profile, and no name in it becomes markup."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.chips import get_chip
from openane.cli import main
from openane.cli.profile import subject_of
from openane.errors import FormatError
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder
from openane.report import Profile, ProfileSubject, as_csv, document, html, profile, table, trace
from openane.report.trace import TRACKS

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u2028'\"{data}{script}"


class Parsed(HTMLParser):
    """Tags of a page, and the text of its data element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append(dict(attrs).get("id") or "")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.scripts[-1] == "data":
            self.data += data


@pytest.fixture(scope="module")
def model() -> ane.Model:
    return ane.compile(ane.load_graph(DIGITS))


@pytest.fixture(scope="module")
def found(model: ane.Model) -> Profile:
    return profile(subject_of(model), "m1")


@pytest.fixture(scope="module")
def data(model: ane.Model, found: Profile) -> dict[str, Any]:
    origins = [html.OperationPlace(entry.operation, str(entry.where), entry.reason) for entry in model.report]
    page = html.page(html.gathered(found, model.graph, origins))
    loaded: dict[str, Any] = json.loads(Parsed(page).data)
    return loaded


def test_totals_agree_with_every_other_form(found: Profile, data: dict[str, Any]) -> None:
    rows = [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]
    engine = found.engine_seconds * 1e6
    events = [event for event in trace(found)["traceEvents"] if event["ph"] == "X"]
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(rows) == len(lines) == len(table(found, None)[1]) == document(found)["tasks"]
    for total in (sum(row["time_us"] for row in rows), sum(node["us"] for node in data["graph"]["nodes"]),
                  sum(float(line["time_us"]) for line in lines), data["profile"]["engine_us"],
                  sum(event["args"].get("time_us", 0) for event in events),
                  next(card["value"] for card in data["cards"] if card["title"] == "Engine")):
        assert total == pytest.approx(engine, rel=1e-6)
    for row, line, plain in zip(rows, lines, document(found)["rows"], strict=True):
        assert row["start_us"] == pytest.approx(float(line["start_us"]), rel=1e-6)
        assert {key: row[key] for key in ("node", "bound", "kernel_bytes", "tile_bytes", "l2_bytes", "multiplies")} \
            == {key: plain[key] for key in ("node", "bound", "kernel_bytes", "tile_bytes", "l2_bytes", "multiplies")}
    coming = [event for event in events if event["tid"] == TRACKS["coefficients"]]
    arriving = [(begin, end) for begin, end in data["coefficients"] if end > begin]
    assert len(coming) == len(arriving)
    for event, (begin, end) in zip(coming, arriving, strict=True):
        assert (event["ts"], event["ts"] + event["dur"]) == pytest.approx((begin, end), abs=1.1e-3)


def test_every_number_says_what_it_is(data: dict[str, Any]) -> None:
    assert {card["kind"] for card in data["cards"]} <= {"exact", "measured", "modelled", "extrapolated"}
    assert {card["group"] for card in data["cards"]} == {"Time", "Chip", "Memory", "Work"}


@pytest.mark.parametrize(("chip", "engine", "call", "whole"), [
    ("m1", "modelled", "measured", "modelled"), ("m1 pro", "modelled", "extrapolated", "extrapolated"),
    ("m4 max", "extrapolated", "modelled", "extrapolated")])
def test_a_number_is_no_surer_than_what_it_is_made_of(model: ane.Model, chip: str, engine: str, call: str,
                                                      whole: str) -> None:
    found = html.gathered(profile(subject_of(model), chip))
    kinds = {card["title"]: card["kind"] for card in found["cards"]}
    assert (kinds["Engine"], kinds["Of the roofline"], kinds["Achieved"]) == (engine,) * 3
    assert kinds["Dispatch"] == call
    assert (kinds["One inference"], kinds["Inferences a second"]) == (whole,) * 2
    assert kinds["Multiplications"] == kinds["Tasks"] == kinds["DRAM: constants"] == "exact"
    assert {kinds[title] for title in kinds if title.startswith("Moved")} == {"modelled"}


def test_every_task_is_in_the_graph_once(data: dict[str, Any]) -> None:
    nodes = data["graph"]["nodes"]
    assert sorted(task for node in nodes for task in node["tasks"]) == list(range(len(data["rows"])))
    assert {node["where"] for node in nodes} >= {"input", "engine", "fused", "free", "output"}
    reached, edges = {0}, data["graph"]["edges"]
    for a, b, *_ in sorted(edges):
        if a in reached:
            reached.add(b)
    assert reached == set(range(len(nodes)))


def test_registers_are_those_of_the_tasks(found: Profile, data: dict[str, Any]) -> None:
    program = found.subject.programs[0]
    chip, registers = get_chip(program.chip), data["registers"]
    now: dict[int, int] = {}
    for task, changes in zip(program.tasks, registers["tasks"], strict=True):
        now |= dict(zip(changes[::2], changes[1::2], strict=True))
        now = {field: value for field, value in now.items() if value >= 0}
        shown = {".".join(registers["fields"][field][:2]): registers["values"][value] for field, value in now.items()}
        fields = chip.decode(task.words)
        assert shown["Header.Task.TID"] == str(fields.values["Header.Task.TID"]) if "Header.Task.TID" in shown \
            else fields.values["Header.Task.TID"] == 0
        assert {name for name in shown if "rest " not in name} <= fields.values.keys()
        assert sum("rest " in name for name in shown) == len(fields.rest)
    assert any(meaning for _, _, _, meaning, _ in registers["fields"])


def test_live_bytes_fit_and_begin_with_the_inputs(data: dict[str, Any]) -> None:
    memory, tasks = data["memory"], len(data["rows"])
    assert len(memory["live"]["L2"]) == len(memory["live"]["DRAM"]) == tasks
    assert 0 < max(memory["live"]["L2"]) <= data["profile"]["l2_high"]
    assert memory["live"]["DRAM"][0] >= data["profile"]["memory"]["inputs"]
    for area, low, high, begin, end, writer in memory["lives"]:
        assert 0 <= low < high <= memory["areas"][area][2]
        assert 0 <= begin <= end < tasks
        assert writer in (-1, begin)


def test_names_from_files_stay_text() -> None:
    build = GraphBuilder(name=HOSTILE)
    x = build.input(HOSTILE, "fp16", (1, 8, 4, 40))
    model = ane.compile(build.finish({"y": build.single("relu", x=x)}))
    subject = ProfileSubject(HOSTILE, "h13", model.programs, {(0, 0): HOSTILE})
    page = html.page(html.gathered(profile(subject, "m1"), model.graph,
                                   [html.OperationPlace(HOSTILE, "engine", HOSTILE)]))
    parsed = Parsed(page)
    assert parsed.scripts == ["data", ""]
    assert parsed.tags.count("img") == 0
    assert json.loads(parsed.data)["profile"]["name"] == HOSTILE.replace("\u2028", r"\u2028")  # it would break the line
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in page


def test_a_program_without_its_model(model: ane.Model) -> None:
    made = html.gathered(profile(ProfileSubject.of_program(model.program), "m1"))
    assert len(made["graph"]["nodes"]) == len(model.program.tasks)
    assert made["graph"]["edges"]
    assert made["operations"] == []


def test_two_runs_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, other = tmp_path / "r.html", tmp_path / "other.json"
    assert main(["profile", str(DIGITS), "--chip", "m4", "--json"]) == 0
    other.write_text(capsys.readouterr().out)
    for before in (other, report):  # first a JSON document, then the report made with it
        assert main(["profile", str(DIGITS), "--html", str(report), "--compare", str(before)]) == 0
        compared = json.loads(Parsed(report.read_text()).data)["compare"]
        totals = {row[0]: row[2:] for row in compared["totals"]}
        assert compared["chip"] == ("m4" if before is other else "m1")
        assert (totals["engine"][0] == pytest.approx(totals["engine"][1])) is (before is report)
        assert totals["tasks"][0] == totals["tasks"][1] == 10
        assert sum(row[2] for row in compared["nodes"]) == pytest.approx(totals["engine"][1])
        capsys.readouterr()


@pytest.mark.parametrize("text", ["", "[]", "{}", "<html>", '{"time_us": 1}', '{"time_us": "1", "time_by_node_us": {}}',
                                  "[" * 100_000, '<script id="data">{}</script>', "\ud800", "<![x"])
def test_what_is_no_profile_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(FormatError, match=r"neither a profile|holds no profile"):
        html.read(path)


def test_a_profile_with_strange_members_is_compared() -> None:
    other = {"time_us": 1, "time_by_node_us": {"a": 1, "b": "x", "c": None}, "bytes": [], "memory": {"inputs": True}}
    compared = html.compared({"time_us": 2.0, "time_by_node_us": {"a": 3}}, other)
    assert compared["totals"] == [["one inference", "us", 1, 2.0]]
    assert compared["nodes"] == [["a", 1, 3]]


def health(report: Path) -> dict[str, dict[str, Any]]:
    """What a report says of each tensor, by its name."""
    numbers = json.loads(Parsed(report.read_text()).data)["numbers"]
    rows = [dict(zip(numbers["columns"], row, strict=True)) for row in numbers["tensors"]]
    return {row["tensor"]: row for row in rows}


def test_values_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.html"
    assert main(["profile", str(DIGITS), "--html", str(report), "--numbers", "--arithmetic", "exact"]) == 0
    capsys.readouterr()
    numbers = json.loads(Parsed(report.read_text()).data)["numbers"]
    rows = health(report)
    assert {row["state"] for row in rows.values()} == {"agrees", "inside a task"}
    assert rows["relu1.out"]["state"] == rows["probabilities"]["state"] == "agrees"
    assert {row[5] for row in numbers["tasks"]} == {"exact", "none"}
    assert main(["run", str(DIGITS), "--check", "--arithmetic", "exact", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["tensors"]
    assert [row["tensor"] for row in checked] == list(rows)
    assert [row["stored"] for row in checked] == [row["l2_rel"] is not None for row in rows.values()]
    for row in (row for row in checked if row["stored"]):
        assert row["l2_rel"] == pytest.approx(rows[row["tensor"]]["l2_rel"], rel=1e-6)
    assert main(["profile", str(DIGITS), "--numbers"]) == 1
    assert "--html" in capsys.readouterr().err


def test_a_model_that_overflows_is_seen_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = GraphBuilder()
    x = build.input("x", "fp16", (1, 8, 4, 40))
    square = build.single("mul", x=build.single("mul", x=x, y=300.0), y=build.single("mul", x=x, y=300.0))
    path = tmp_path / "large.mil"
    path.write_text(print_mil(build.finish({"y": square}))[0])
    assert main(["profile", str(path), "--html", str(tmp_path / "r.html"), "--numbers"]) == 0
    capsys.readouterr()
    (row,) = [row for row in health(tmp_path / "r.html").values() if row["state"] == "overflows"]
    assert row["overflow"] > 0
    assert "fp16 ends at 65504" in row["why"]


def test_what_only_passes_a_limit_on_paper_is_no_overflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scale folded into the layer before it, and a tensor that lies inside a task: no alarms."""
    build = GraphBuilder()
    rng = np.random.default_rng(0)
    x = build.input("x", "fp16", (4, 64))
    large = build.single("linear", x=build.single("abs", x=x, name="plain"), name="large",
                         weight=(rng.standard_normal((64, 64)) * 60000).clip(-60000, 60000).astype(np.float16))
    scaled = build.single("mul", x=large, y=np.float16(2.0 ** -14), name="scaled")
    path, report = tmp_path / "m.mil", tmp_path / "r.html"
    ane.compile(build.finish({"y": build.single("relu", x=scaled)})).save(tmp_path / "m.ane")
    path = tmp_path / "m.ane"
    assert main(["profile", str(path), "--html", str(report), "--numbers", "--arithmetic", "exact"]) == 0
    capsys.readouterr()
    rows = health(report)
    assert {row["state"] for row in rows.values()} <= {"agrees", "inside a task"}
    assert rows["y"]["state"] == "agrees"


def test_operations_of_the_host_stand_between_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = GraphBuilder()
    first = build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))
    product = build.single("local_response_norm", x=first, size=2)
    path, report = tmp_path / "m.mil", tmp_path / "r.html"
    path.write_text(print_mil(build.finish({"y": build.single("add", x=first, y=product)}))[0])
    assert main(["profile", str(path), "--allow-host", "--html", str(report), "--numbers"]) == 0
    capsys.readouterr()
    data = json.loads(Parsed(report.read_text()).data)
    assert data["profile"]["programs"] == 2
    assert [node["where"] for node in data["graph"]["nodes"]].count("host") == 1
    assert len(data["numbers"]["tasks"]) == len(data["rows"])
    assert {row["state"] for row in health(report).values()} <= {"agrees", "on the host", "inside a task"}
    assert [row["operation"].split()[0] for row in health(report).values() if row["state"] == "on the host"] \
        == ["local_response_norm"]
    without = "without 1 host operation, whose time is not modelled"
    assert data["profile"]["times_without"] == without
    assert {card["title"] for card in data["cards"] if card["note"] == without} == \
        {"One inference", "Inferences a second"}
    buffers = {name: role for name, role, _ in data["memory"]["areas"]}
    assert "x" in buffers
    assert max(data["memory"]["live"]["DRAM"]) > 0


def test_a_model_all_of_whose_operations_are_the_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = GraphBuilder()
    path, report = tmp_path / "m.mil", tmp_path / "r.html"
    x = build.input("x", "fp16", (1, 8, 8))
    path.write_text(print_mil(build.finish({"y": build.single("local_response_norm", x=x, size=2)}))[0])
    assert main(["profile", str(path), "--allow-host", "--html", str(report), "--numbers"]) == 0
    capsys.readouterr()
    data = json.loads(Parsed(report.read_text()).data)
    assert data["rows"] == []
    assert data["profile"]["time_us"] == 0
