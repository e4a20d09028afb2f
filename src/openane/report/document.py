"""A profile as one JSON document, as CSV, and as lines for people. All three are made of the same numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openane.chips.machines import Figure
from openane.report.profile import Kind, Profile, Row
from openane.wording import byte_text, plural

MICRO = 1e6
COLUMNS = ("program", "task", "operation", "node", "engine", "bound", "start_us", "time_us", "share", "utilisation",
           "multiplies", "kernel_bytes", "tile_bytes", "l2_bytes")
SHOWN = 20
RATES = (("clock", "GHz"), ("l2_clock", "GHz"), ("kernel", "GB/s"), ("tile", "GB/s"))
WORDS = {"l2_clock": "L2 clock", "kernel": "coefficients", "tile": "operands and results"}


def document(profile: Profile) -> dict[str, Any]:
    """Everything a profile says; times in microseconds, sizes in bytes, `kinds` says what each number is."""
    rates = profile.rates
    return {
        "name": profile.subject.name, "chip": rates.chip, "generation": rates.generation,
        "target": profile.subject.target, "route": str(profile.route), "clock_state": str(profile.state),
        "kinds": {"counts": str(Kind.EXACT), "bytes": str(Kind.EXACT), "times": str(profile.time_kind)},
        "rates": {name: {"value": (getattr(rates, name).value or 0) / 1e9, "unit": unit,
                         "known": str(getattr(rates, name).known)} for name, unit in RATES},
        "programs": len(profile.programs), "tasks": len(profile.rows),
        "host_operations": list(profile.subject.host),
        "memory": profile.subject.memory(), "l2_high": profile.l2_high(),
        "bytes": profile.bytes_by_kind(),
        "multiplies": sum(row.multiplies for row in profile.rows),
        "dispatch_us": profile.dispatch * MICRO * len(profile.programs), "engine_us": profile.engine_seconds * MICRO,
        "time_us": profile.seconds * MICRO, "inferences_per_second": profile.inferences,
        "time_by_engine_us": _micro(profile.time_by_engine()), "time_by_part_us": _micro(profile.time_by_part()),
        "time_by_node_us": _micro(profile.time_by_node()), "roofline_us": _micro(profile.roofline()),
        "efficiency": profile.efficiency(),
        "rows": [dict(zip(COLUMNS, cells(row), strict=True)) for row in profile.rows],
    }


def cells(row: Row) -> tuple[Any, ...]:
    """A task's figures in the order of `COLUMNS`."""
    return (row.program, row.task, row.operation, row.node, row.engine, str(row.bound), row.start * MICRO,
            row.seconds * MICRO, row.share, row.utilisation, row.multiplies, row.kernel_bytes, row.tile_bytes,
            row.l2_bytes)


def as_csv(profile: Profile) -> str:
    """A line per task under a heading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(cells(row) for row in profile.rows)
    return text.getvalue()


def summary(profile: Profile) -> Iterator[str]:
    """The lines above the table."""
    rates, kind = profile.rates, profile.time_kind
    yield f"{profile.subject.name} on {rates.chip} ({rates.generation}, {profile.state} clock), times {kind}"
    yield "  " + ", ".join(f"{WORDS.get(name, name)} {_rate(getattr(rates, name), unit)}" for name, unit in RATES)
    yield (f"  {plural(len(profile.rows), 'task')} in {plural(len(profile.programs), 'program')}, "
           f"{plural(len(profile.subject.host), 'host operation')}")
    yield "  memory (exact): " + _sizes(profile.subject.memory()) + f"; L2 up to {byte_text(profile.l2_high())}"
    yield "  moved (exact): " + _sizes(profile.bytes_by_kind())
    yield f"  multiplications (exact): {sum(row.multiplies for row in profile.rows):,}"
    yield "  time by engine: " + _times(profile.time_by_engine(), profile.engine_seconds)
    yield "  time decided by: " + _times(profile.time_by_part(), profile.engine_seconds)
    limit, seconds = max(profile.roofline().items(), key=lambda item: item[1])
    yield (f"  roofline: {limit} alone needs {_us(seconds)}, {profile.efficiency():.0%} of the engine's "
           f"{_us(profile.engine_seconds)}")
    engine, calls = profile.engine_seconds, profile.dispatch * len(profile.programs)
    yield (f"  one inference: {_us(profile.seconds)} = engine {_us(engine)} + dispatch {_us(calls)} "
           f"({profile.route}); {profile.inferences:.0f} a second")


def table(profile: Profile, longest: int | None = SHOWN) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Heading and rows for people: the longest tasks first, or with None all in order."""
    rows = profile.rows if longest is None else sorted(profile.rows, key=lambda row: -row.seconds)[:longest]
    return (("task", "operation", "node", "engine", "bound", "us", "share", "use", "bytes"),
            [(f"{row.program}.{row.task}" if len(profile.programs) > 1 else row.task, row.operation, row.node or "-",
              row.engine, str(row.bound), round(row.seconds * MICRO, 2), f"{row.share:.1%}", f"{row.utilisation:.0%}",
              row.memory_bytes) for row in rows])


def _micro(values: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds * MICRO for name, seconds in values.items()}


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
