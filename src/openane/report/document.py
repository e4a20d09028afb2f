"""A profile as one JSON document, as CSV, and as lines for people. All three are made of the same numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openane.chips.machines import Figure
from openane.report.profile import MOVED_KIND, NumberKind, Profile, Row, kind_of
from openane.wording import byte_text, line_text, plural

MICRO = 1e6
COLUMNS = ("program", "task", "operation", "node", "engine", "bound", "start_us", "time_us", "share", "utilisation",
           "multiplies", "kernel_bytes", "tile_bytes", "l2_bytes", "held_bytes")
SHOWN = 20
RATES = (("clock", "GHz"), ("l2_clock", "GHz"), ("kernel", "GB/s"), ("tile", "GB/s"))
WORDS = {"l2_clock": "L2 clock", "kernel": "coefficients", "tile": "operands and results"}


def document(profile: Profile) -> dict[str, Any]:
    """Everything a profile says; times in microseconds, sizes in bytes, `kinds` says what each number is."""
    rates = profile.rates
    return {
        "name": profile.subject.name, "chip": rates.chip, "asked": profile.asked, "choices": list(profile.choices),
        "generation": rates.generation, "target": profile.subject.target, "route": str(profile.route),
        "clock_state": str(profile.state), "kinds": kinds(profile), "notes": notes(profile),
        "times_without": profile.without,
        "rates": {name: _figure(getattr(rates, name), unit) for name, unit in RATES},
        "programs": len(profile.programs), "tasks": len(profile.rows),
        "host_operations": list(profile.subject.host),
        "memory": profile.subject.memory(), "l2_high": profile.l2_high(),
        "bytes": profile.bytes_by_kind(), "held_bytes": sum(row.held_bytes for row in profile.rows),
        "multiplies": sum(row.multiplies for row in profile.rows),
        "dispatch_us": profile.dispatch * MICRO * len(profile.programs), "engine_us": profile.engine_seconds * MICRO,
        "time_us": profile.seconds * MICRO, "inferences_per_second": profile.inferences,
        "time_by_engine_us": _micro(profile.time_by_engine()), "time_by_part_us": _micro(profile.time_by_part()),
        "time_by_node_us": _micro(profile.time_by_node()), "roofline_us": _micro(profile.roofline()),
        "efficiency": profile.efficiency(),
        "rows": [dict(zip(COLUMNS, cells(row), strict=True)) for row in profile.rows],
    }


def kinds(profile: Profile) -> dict[str, str]:
    """What each group of numbers is: `times` are those of an inference and what is made of them, `engine` those of
    programs, tasks and parts, `bytes` what is moved, `memory` what is there, `counts` tasks and multiplications."""
    found = {"counts": NumberKind.EXACT, "memory": NumberKind.EXACT, "bytes": MOVED_KIND, "times": profile.time_kind,
             "engine": profile.engine_kind, "dispatch": profile.dispatch_kind}
    return {name: str(kind) for name, kind in found.items()}


def notes(profile: Profile) -> list[str]:
    """Which chip was taken and whose plan this is, where that is not plain."""
    chip, found = profile.rates.chip, []
    others = [name for name in profile.choices if name != chip]
    if others:
        found.append(f"{line_text(profile.asked)} stands for several chips: {chip} is taken, not {', '.join(others)}")
    if profile.foreign:
        found.append(f"planned for {profile.subject.target}: tasks, bytes and multiplications are of that plan, a "
                     f"compiler for {profile.rates.generation} would make another")
    return found


def cells(row: Row) -> tuple[Any, ...]:
    """A task's figures in the order of `COLUMNS`."""
    return (row.program, row.task, row.operation, row.node, row.engine, str(row.bound), row.start * MICRO,
            row.seconds * MICRO, row.share, row.utilisation, row.multiplies, row.kernel_bytes, row.tile_bytes,
            row.l2_bytes, row.held_bytes)


def as_csv(profile: Profile) -> str:
    """A line per task under a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(cells(row) for row in profile.rows)
    return text.getvalue()


def summary(profile: Profile) -> Iterator[str]:
    """The lines above the table."""
    rates, kind = profile.rates, profile.engine_kind
    yield f"{line_text(profile.subject.name)} on {rates.chip} ({rates.generation}, {profile.state} clock)"
    yield from (f"  {note}" for note in notes(profile))
    yield "  " + ", ".join(f"{WORDS.get(name, name)} {_rate(getattr(rates, name), unit)}" for name, unit in RATES)
    yield (f"  {plural(len(profile.rows), 'task')} in {plural(len(profile.programs), 'program')}, "
           f"{plural(len(profile.subject.host), 'host operation')}")
    yield f"  memory ({NumberKind.EXACT}): {_sizes(profile.subject.memory())}; L2 up to {byte_text(profile.l2_high())}"
    held = sum(row.held_bytes for row in profile.rows)
    yield (f"  moved ({MOVED_KIND}): {_sizes(profile.bytes_by_kind())}"
           + (f"; {byte_text(held)} of coefficients held from the task before" if held else ""))
    yield f"  multiplications ({NumberKind.EXACT}): {sum(row.multiplies for row in profile.rows):,}"
    yield f"  time by engine ({kind}): " + _times(profile.time_by_engine(), profile.engine_seconds)
    yield f"  time decided by ({kind}): " + _times(profile.time_by_part(), profile.engine_seconds)
    limit, seconds = profile.limit()
    yield (f"  roofline ({kind}): {limit} alone needs {_us(seconds)}, {profile.efficiency():.0%} of the engine's "
           f"{_us(profile.engine_seconds)}")
    yield _inference(profile)


def _inference(profile: Profile) -> str:
    engine, calls = profile.engine_seconds, profile.dispatch * len(profile.programs)
    text = (f"  one inference: {_us(profile.seconds)} ({profile.time_kind}) = engine {_us(engine)} "
            f"({profile.engine_kind}) + dispatch {_us(calls)} ({profile.route}, {profile.dispatch_kind}); "
            f"{profile.inferences:.0f} a second")
    return text + (f"; {profile.without}" if profile.without else "")


def table(profile: Profile, longest: int | None = SHOWN) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Heading and rows for people: the longest tasks first, or with None all in order."""
    rows = profile.rows if longest is None else sorted(profile.rows, key=lambda row: -row.seconds)[:longest]
    return (("task", "operation", "node", "engine", "bound", "us", "share", "use", "bytes"),
            [(f"{row.program}.{row.task}" if len(profile.programs) > 1 else row.task, row.operation,
              line_text(row.node or "-"), row.engine, str(row.bound), round(row.seconds * MICRO, 2),
              f"{row.share:.1%}", f"{row.utilisation:.0%}", row.memory_bytes) for row in rows])


def _micro(values: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds * MICRO for name, seconds in values.items()}


def _figure(figure: Figure, unit: str) -> dict[str, Any]:
    return {"value": (figure.value or 0) / 1e9, "unit": unit, "known": str(figure.known), "kind": str(kind_of(figure))}


def _rate(figure: Figure, unit: str) -> str:
    return f"{(figure.value or 0) / 1e9:.4g} {unit} ({figure.known})"


def _sizes(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {byte_text(count)}" for name, count in values.items())


def _times(values: Mapping[str, float], total: float) -> str:
    return ", ".join(f"{name} {_us(seconds)} ({seconds / total:.0%})" if total else name
                     for name, seconds in sorted(values.items(), key=lambda item: -item[1]))


def _us(seconds: float) -> str:
    """Microseconds, with a tenth or three figures, whichever says more."""
    value = seconds * MICRO
    return f"{value:.1f} us" if value >= 10 or not value else f"{value:.3g} us"
