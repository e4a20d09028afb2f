"""A profile as a trace that Perfetto (ui.perfetto.dev) opens: the JSON form of Chrome's trace events.

One process for the engine with a track per part (coefficients, neural engine, planar engine), counters of L2 in use and
of memory bandwidth, and one for the host with its dispatches. Timestamps and durations are microseconds, of whole
nanoseconds: Perfetto's trace processor keeps nanoseconds, and what begins inside a slice of its track and ends after it
is an error there (before version 57 it is dropped), so both ends of a slice are rounded and its duration is
what lies between. A task's exact time is in its arguments. The trace processor names a counter by its event and the
argument, "L2" and "bytes". Read in its versions 25, 47, 52 and 58.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from openane.report.bandwidth import bandwidth
from openane.report.profile import Profile
from openane.timing import EnginePart

MICRO, NANO = 1e6, 1e9
HOST, ENGINE = 1, 2
DISPATCH = 1
TRACKS = {"coefficients": 3, "neural": 4, "planar": 5}
"""Their threads; a thread with its process's number would be taken for its main thread."""
NOISE = 1e-11
"""Seconds a sum of times may be too long by, so that no slice ends behind the start of the next."""
Event = dict[str, Any]


def trace(profile: Profile) -> dict[str, Any]:
    """The document; its events cover exactly the time the profile states, to a nanosecond."""
    events = [*_names(profile), *_host(profile), *_tasks(profile), *_counters(profile)]
    about = {"name": profile.subject.name, "chip": profile.rates.chip, "engine": str(profile.engine_kind),
             "dispatch": str(profile.dispatch_kind), "times": str(profile.time_kind)}
    if profile.without:
        about["times_without"] = profile.without
    return {"displayTimeUnit": "ns", "traceEvents": events, "metadata": about}


def as_trace(profile: Profile) -> bytes:
    """The file. Names are UTF-8 and not escaped: the trace processor refuses a file with the pairs of escapes JSON has
    for characters beyond 16 bits, and one with DEL among its metadata. Half of such a pair becomes a question mark."""
    text = json.dumps(trace(profile), ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
    return text.encode("utf-8", "replace")


def _names(profile: Profile) -> Iterator[Event]:
    for process, name in ((HOST, "host"), (ENGINE, f"engine of {profile.rates.chip} ({profile.engine_kind})")):
        yield from _name("process", process, 0, name, process)
    yield from _name("thread", HOST, DISPATCH, "dispatch", DISPATCH)
    for name, track in TRACKS.items():
        yield from _name("thread", ENGINE, track, name, track)


def _name(kind: str, process: int, track: int, name: str, place: int) -> Iterator[Event]:
    yield {"ph": "M", "name": f"{kind}_name", "pid": process, "tid": track, "args": {"name": name}}
    yield {"ph": "M", "name": f"{kind}_sort_index", "pid": process, "tid": track, "args": {"sort_index": place}}


def _host(profile: Profile) -> Iterator[Event]:
    begin = 0.0
    for number, program in enumerate(profile.programs):
        if profile.dispatch:
            yield _slice(HOST, DISPATCH, f"dispatch program {number}", begin, profile.dispatch,
                         {"route": str(profile.route), "kind": str(profile.dispatch_kind)})
        begin += profile.dispatch + program.seconds


def _tasks(profile: Profile) -> Iterator[Event]:
    for row in profile.rows:
        task = profile.programs[row.program].tasks[row.task]
        start = row.start - task.start
        yield _slice(ENGINE, TRACKS[row.engine], row.node or row.operation, row.start, row.seconds, {
            "task": row.task, "program": row.program, "operation": row.operation, "bound": str(row.bound),
            "time_us": _short(row.seconds * MICRO), "share": _short(row.share),
            "utilisation": _short(row.utilisation), "multiplies": row.multiplies, "kernel_bytes": row.kernel_bytes,
            "tile_bytes": row.tile_bytes, "l2_bytes": row.l2_bytes})
        if task.times.parts[EnginePart.KERNEL]:
            yield _slice(ENGINE, TRACKS["coefficients"], f"coefficients of task {row.task}", start + task.kernel_start,
                         task.kernel_end - task.kernel_start, {"bytes": row.kernel_bytes})


def _counters(profile: Profile) -> Iterator[Event]:
    ends = accumulate(profile.dispatch + program.seconds for program in profile.programs)
    used = {_nanoseconds(at): 0 for at in ends} | {_nanoseconds(row.start): row.l2_high for row in profile.rows}
    moving = {_nanoseconds(at): rate for at, rate in [*bandwidth(profile), (profile.seconds, 0.0)]}
    for at, count in sorted(used.items()):
        yield _counter("L2", "bytes", at, count)
    for at, rate in moving.items():
        yield _counter("memory", "GB/s", at, rate)


def _slice(process: int, track: int, name: str, start: float, seconds: float, arguments: dict[str, Any]) -> Event:
    begin = _nanoseconds(start)
    end = max(begin, _nanoseconds(start + seconds - NOISE))
    return {"ph": "X", "pid": process, "tid": track, "name": name, "cat": "engine", "ts": _microseconds(begin),
            "dur": _microseconds(end - begin), "args": arguments}


def _counter(name: str, unit: str, at: int, value: float) -> Event:
    return {"ph": "C", "pid": ENGINE, "tid": 0, "name": name, "ts": _microseconds(at), "args": {unit: value}}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * NANO)


def _microseconds(nanoseconds: int) -> float:
    """As a number that times a thousand is no less: newer trace processors round, those before version 51 cut off."""
    value = nanoseconds / 1000
    return value if int(value * 1000) == nanoseconds else math.nextafter(value, math.inf)


def _short(value: float) -> float:
    """Nine digits: the trace processor misreads numbers of twenty and more behind the point."""
    return float(f"{value:.9g}")
