"""The summary of a report, in the order people know from Arm's Vela: the machine, memory, operations, work, time.

Each entry says what it is: exact, measured, modelled or extrapolated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openane.chips.machines import Figure
from openane.report.document import MICRO, RATES, WORDS
from openane.report.profile import MOVED_KIND, NumberKind, Profile, kind_of
from openane.wording import plural

Card = dict[str, Any]


def cards(profile: Profile, live: dict[str, int]) -> list[Card]:
    """Entries with `group`, `title`, `value`, `unit`, `kind` and a `note`; `live` are peaks of live bytes by memory."""
    return [*_time(profile), *_machine(profile), *_memory(profile, live), *_work(profile)]


def _card(group: str, title: str, value: float, unit: str, kind: NumberKind, note: str = "") -> Card:
    return {"group": group, "title": title, "value": value, "unit": unit, "kind": str(kind), "note": note}


def _time(profile: Profile) -> Iterator[Card]:
    whole, kind, engine = profile.time_kind, profile.engine_kind, profile.engine_seconds
    yield _card("Time", "One inference", profile.seconds * MICRO, "us", whole,
                profile.without or "engine and dispatch")
    yield _card("Time", "Inferences a second", profile.inferences, "", whole, profile.without or "one after the other")
    yield _card("Time", "Engine", engine * MICRO, "us", kind, "all programs")
    yield _card("Time", "Dispatch", profile.dispatch * len(profile.programs) * MICRO, "us", profile.dispatch_kind,
                f"{len(profile.programs)} x {profile.dispatch * MICRO:.4g} µs ({profile.route})")
    limit, seconds = profile.limit()
    yield _card("Time", "Of the roofline", profile.efficiency(), "%", kind,
                f"{limit} alone needs {seconds * MICRO:.4g} µs")
    shares = sorted(profile.time_by_part().items(), key=lambda item: -item[1])
    for name, part in shares[:3]:
        yield _card("Time", f"Decided by {name}", part / engine if engine else 0.0, "%", kind, f"{part * MICRO:.4g} µs")


def _machine(profile: Profile) -> Iterator[Card]:
    rates = profile.rates
    yield _card("Chip", "Cores", rates.cores.value or 0, "", kind_of(rates.cores), f"{rates.chip}, {rates.generation}")
    for name, unit in RATES:
        figure: Figure = getattr(rates, name)
        yield _card("Chip", WORDS.get(name, name).capitalize() if name != "l2_clock" else "L2 clock",
                    (figure.value or 0) / 1e9, unit, kind_of(figure), str(figure.known or ""))


def _memory(profile: Profile, live: dict[str, int]) -> Iterator[Card]:
    yield _card("Memory", "L2 in use", profile.l2_high(), "bytes", NumberKind.EXACT, "highest byte")
    for name, count in live.items():
        yield _card("Memory", f"{name} live at most", count, "bytes", NumberKind.EXACT, "in one task, with padding")
    for name, count in profile.subject.memory().items():
        yield _card("Memory", f"DRAM: {name}", count, "bytes", NumberKind.EXACT)


def _work(profile: Profile) -> Iterator[Card]:
    yield _card("Work", "Tasks", len(profile.rows), "", NumberKind.EXACT,
                f"in {plural(len(profile.programs), 'program')}")
    yield _card("Work", "Host operations", len(profile.subject.host), "", NumberKind.EXACT,
                "their time is not modelled" if profile.subject.host else "")
    yield _card("Work", "Multiplications", sum(row.multiplies for row in profile.rows), "", NumberKind.EXACT)
    achieved = 2 * sum(row.multiplies for row in profile.rows) / profile.engine_seconds / 1e12 if profile.rows else 0.0
    yield _card("Work", "Achieved", achieved, "TFLOPS", profile.engine_kind, "of the engine's time")
    for name, count in profile.bytes_by_kind().items():
        rate = count / profile.engine_seconds / 1e9 if profile.engine_seconds else 0.0
        yield _card("Work", f"Moved: {name}", count, "bytes", MOVED_KIND, f"{rate:.3g} GB/s on average")
    held = sum(row.held_bytes for row in profile.rows)
    if held:
        yield _card("Work", "Held: coefficients", held, "bytes", MOVED_KIND, "in the cores, not fetched again")

