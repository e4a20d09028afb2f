"""The trace as Perfetto reads it: in its own trace processor where the program is there, and by that program's rules.

The pip package `perfetto` is the client: it fetches `trace_processor_shell` when first used, which tests must not.
"""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import openane as ane
from openane.cli.profile import subject_of
from openane.report import Profile, Subject, profile, trace
from openane.report.bandwidth import bandwidth

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def found() -> Profile:
    subject = subject_of(ane.compile(ane.load_graph(DIGITS)))
    return profile(Subject("twice", subject.target, subject.programs * 2), "m1")


def nanoseconds(microseconds: float) -> int:
    """As the trace processor reads times of JSON: cut off, not rounded."""
    return int(microseconds * 1000)


def test_slices_of_a_track_follow_each_other(found: Profile) -> None:
    """The trace processor drops slices that begin inside another of their track and end after it."""
    tracks: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for event in json.loads(json.dumps(trace(found)))["traceEvents"]:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    assert len(tracks) == 4
    for events in tracks.values():
        ordered = sorted(events, key=lambda event: float(event["ts"]))
        for first, second in pairwise(ordered):
            assert nanoseconds(first["ts"]) + nanoseconds(first["dur"]) <= nanoseconds(second["ts"])


def test_it_opens_in_perfettos_trace_processor(found: Profile, tmp_path: Path) -> None:
    api = pytest.importorskip("perfetto.trace_processor", reason="the client is not installed: pip install perfetto")
    shell = shutil.which("trace_processor_shell")
    if shell is None:
        pytest.skip("trace_processor_shell is not on the PATH: get it from the releases of google/perfetto")
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace(found)))
    events = trace(found)["traceEvents"]
    with api.TraceProcessor(trace=str(path), config=api.TraceProcessorConfig(bin_path=shell)) as processor:
        rows = list(processor.query("select count(*) as slices, sum(dur) as total from slice"))
        assert rows[0].slices == sum(event["ph"] == "X" for event in events)
        assert rows[0].total == pytest.approx(sum(event.get("dur", 0) for event in events) * 1e3, rel=1e-2)
        counters = {row.name for row in processor.query("select distinct name from counter_track")}
        assert {"L2 bytes", "memory GB/s"} <= counters
        failed = processor.query("select name, value from stats where severity = 'error' and value > 0")
        assert [row.name for row in failed] == []


def test_bandwidth_is_what_moves_and_never_more_than_the_paths(found: Profile) -> None:
    steps = bandwidth(found)
    moved = sum((after - at) * rate * 1e9 for (at, rate), (after, _) in pairwise(steps))
    counted = found.bytes_by_kind()
    assert moved == pytest.approx(counted["coefficients"] + counted["operands and results"], rel=1e-3)
    assert max(rate for _, rate in steps) * 1e9 <= (found.rates.kernel.value or 0) + (found.rates.tile.value or 0)
    assert steps[-1][1] == 0
    values = [event["args"]["value"] for event in trace(found)["traceEvents"] if event["name"] == "memory GB/s"]
    assert values == [*(rate for _, rate in steps), 0.0]
