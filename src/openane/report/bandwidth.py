"""How fast memory is read and written over time: coefficients as they come in, operands and results with their task."""

from __future__ import annotations

from openane.report.profile import Profile
from openane.timing import EnginePart

GIGA = 1e9
DIGITS = 12
"""Of times in seconds: the end of a task and the start of the next are one time."""


def bandwidth(profile: Profile) -> list[tuple[float, float]]:
    """Steps (seconds from the first program's start, GB/s from then on), the last one zero. As modelled: what a part
    moves it moves evenly while it is busy with a task."""
    changes: dict[float, float] = {}
    rows = iter(profile.rows)
    for program in profile.programs:
        for task in program.tasks:
            row = next(rows)
            begin = row.start - task.start
            moves = [(row.start, row.start + row.seconds, row.tile_bytes)]
            if task.times.parts[EnginePart.KERNEL]:
                moves.append((begin + task.kernel_start, begin + task.kernel_end, row.kernel_bytes))
            for start, end, count in moves:
                if count and end > start:
                    rate = count / (end - start) / GIGA
                    for at, change in ((round(start, DIGITS), rate), (round(end, DIGITS), -rate)):
                        changes[at] = changes.get(at, 0.0) + change
    steps, now = [], 0.0
    for at, change in sorted(changes.items()):
        now = max(0.0, now + change)
        steps.append((at, round(now, 6)))
    if steps:
        steps[-1] = (steps[-1][0], 0.0)
    return steps
