"""Everything a report shows, as one JSON document: the page beside it only draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from openane.chips import get_chip
from openane.graph import Graph
from openane.program.listing import in_words, slot_names
from openane.report.bandwidth import bandwidth
from openane.report.document import COLUMNS, MICRO, cells, document
from openane.report.html.cards import cards
from openane.report.html.compare import compared
from openane.report.html.graph import OperationPlace, drawn
from openane.report.html.lifetimes import Lifetimes, lifetimes
from openane.report.html.registers import registers
from openane.report.profile import Profile
from openane.timing import EnginePart
from openane.version import __version__

Document = dict[str, Any]


def gathered(profile: Profile, graph: Graph | None = None, origins: Sequence[OperationPlace] = (),
             numbers: Mapping[str, Any] | None = None, other: Mapping[str, Any] | None = None) -> Document:
    """The document. `graph` and `origins` are the model and what became of its operations, where there is one;
    `numbers` what a run found of values; `other` a second profile's document."""
    plain = document(profile)
    del plain["rows"]
    subject = profile.subject
    operations = [[task.operation for task in program.tasks] for program in profile.programs]
    limits = get_chip(subject.target).limits
    found = lifetimes(list(zip(subject.programs, operations, strict=True)), limits)
    live = {"L2": found.live(len(profile.rows), True), "DRAM": found.live(len(profile.rows), False)}
    return {
        "openane": __version__, "profile": plain, "columns": [*COLUMNS, "l2_high"],
        "rows": [[*cells(row), row.l2_high] for row in profile.rows],
        "words": [in_words(operation, slot_names(program.slots, program.buffers)) for program, tasks in
                  zip(subject.programs, operations, strict=True) for operation in tasks],
        "parts": {str(part): [row.parts[part] * MICRO for row in profile.rows] for part in EnginePart},
        "coefficients": _coefficients(profile), "calls": _calls(profile),
        "bandwidth": [[at * MICRO, rate] for at, rate in bandwidth(profile)],
        "cards": cards(profile, {name: max(series, default=0) for name, series in live.items()}),
        "memory": _memory(found, live, limits.l2_size),
        "graph": drawn(profile, found.flow, graph, origins),
        "registers": registers(subject.programs),
        "operations": [[each.operation, each.where, each.reason] for each in origins],
        "numbers": dict(numbers) if numbers is not None else None,
        "compare": compared(plain, other) if other is not None else None,
    }


def _coefficients(profile: Profile) -> list[list[float]]:
    """Begin and end of every task's coefficients on their way, in microseconds; equal where there are none."""
    rows = iter(profile.rows)
    found = []
    for program in profile.programs:
        for task in program.tasks:
            begin = next(rows).start - task.start
            found.append([(begin + task.kernel_start) * MICRO, (begin + task.kernel_end) * MICRO])
    return found


def _calls(profile: Profile) -> list[list[float]]:
    """Begin and end of every program's dispatch, in microseconds."""
    found, begin = [], 0.0
    for program in profile.programs:
        found.append([begin * MICRO, (begin + profile.dispatch) * MICRO])
        begin += profile.dispatch + program.seconds
    return found


def _memory(found: Lifetimes, live: Mapping[str, list[int]], size: int) -> Document:
    """`areas` ([name, role, bytes]; the first is L2), `lives` ([area, low, high, first task, last task, writer; -1 is
    the host]) and the bytes live in each task."""
    return {"areas": [[area.name, area.role, area.size] for area in found.areas], "l2_size": size,
            "lives": [[life.area, life.low, life.high, life.begin, life.end, life.writer] for life in found.lives],
            "live": live}
