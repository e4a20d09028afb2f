"""A profile as a trace that Perfetto (ui.perfetto.dev) opens: the JSON form of Chrome's trace events.

One process for the engine with a track per part (coefficients, neural engine, planar engine), counters of L2 in use and
of memory bandwidth, and one for the host with its dispatches. Timestamps and durations are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openane.report.bandwidth import bandwidth
from openane.report.profile import Profile
from openane.timing import Part

MICRO = 1e6
HOST, ENGINE = 1, 2
TRACKS = {"coefficients": 1, "neural": 2, "planar": 3}
Event = dict[str, Any]


def trace(profile: Profile) -> dict[str, Any]:
    """The document; its events cover exactly the time the profile states."""
    events = [*_names(profile), *_host(profile), *_tasks(profile), *_counters(profile)]
    return {"displayTimeUnit": "ns", "traceEvents": events,
            "otherData": {"name": profile.subject.name, "chip": profile.rates.chip, "times": str(profile.time_kind)}}


def _names(profile: Profile) -> Iterator[Event]:
    for process, name in ((HOST, "host"), (ENGINE, f"engine of {profile.rates.chip} ({profile.time_kind})")):
        yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}
    for name, track in TRACKS.items():
        yield {"ph": "M", "name": "thread_name", "pid": ENGINE, "tid": track, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_name", "pid": HOST, "tid": 1, "args": {"name": "dispatch"}}


def _host(profile: Profile) -> Iterator[Event]:
    begin = 0.0
    for number, program in enumerate(profile.programs):
        if profile.dispatch:
            yield _slice(HOST, 1, f"dispatch program {number}", begin, profile.dispatch, {"route": str(profile.route)})
        begin += profile.dispatch + program.seconds


def _tasks(profile: Profile) -> Iterator[Event]:
    for row in profile.rows:
        task = profile.programs[row.program].tasks[row.task]
        start = row.start - task.start
        yield _slice(ENGINE, TRACKS[row.engine], row.node or row.operation, row.start, row.seconds, {
            "task": row.task, "program": row.program, "operation": row.operation, "bound": str(row.bound),
            "share": row.share, "utilisation": row.utilisation, "multiplies": row.multiplies,
            "kernel_bytes": row.kernel_bytes, "tile_bytes": row.tile_bytes, "l2_bytes": row.l2_bytes})
        if task.times.parts[Part.KERNEL]:
            yield _slice(ENGINE, TRACKS["coefficients"], f"coefficients of task {row.task}", start + task.kernel_start,
                         task.kernel_end - task.kernel_start, {"bytes": row.kernel_bytes})


def _counters(profile: Profile) -> Iterator[Event]:
    for row in profile.rows:
        yield _counter("L2 bytes", row.start, row.l2_high)
    yield _counter("L2 bytes", profile.seconds, 0)
    for at, rate in bandwidth(profile):
        yield _counter("memory GB/s", at, rate)
    yield _counter("memory GB/s", profile.seconds, 0.0)


def _slice(process: int, track: int, name: str, start: float, seconds: float, arguments: dict[str, Any]) -> Event:
    return {"ph": "X", "pid": process, "tid": track, "name": name, "cat": "engine", "ts": start * MICRO,
            "dur": seconds * MICRO, "args": arguments}


def _counter(name: str, at: float, value: float) -> Event:
    return {"ph": "C", "pid": ENGINE, "tid": 0, "name": name, "ts": at * MICRO, "args": {"value": value}}
