"""The same work on the chip's CPU and GPU, roughly: which is the better place.

Peaks of GPUs are Apple's; of CPUs (their matrix units) and what a call costs there are guesses of the right size, so
the comparison is only called when it is clear by a factor of two, and not at all where the host computes a part of the
model whose time nobody models.
"""

from __future__ import annotations

from openane.record_classes import dataclass
from openane.report.profile import NumberKind, Profile
from openane.wording import plural

TERA, GIGA, MICRO = 1e12, 1e9, 1e-6
REACHED = 0.5
"""Of a peak or bandwidth that whole models usually reach."""
CLEAR = 2.0
GPU_CALL, CPU_CALL = 100 * MICRO, 5 * MICRO
CPU_PEAK = 1.5
"""Trillion fp32 operations a second of a cluster's matrix unit."""
GPUS = {"m1": (2.6, 68), "m1 pro": (5.2, 200), "m1 max": (10.4, 400), "m1 ultra": (20.8, 800), "m2": (3.6, 100),
        "m2 pro": (6.8, 200), "m2 max": (13.6, 400), "m2 ultra": (27.2, 800), "m3": (4.1, 100), "m3 pro": (7.4, 150),
        "m3 max": (16.4, 400), "m3 ultra": (32.8, 819), "m4": (4.3, 120), "m4 pro": (8.6, 273), "m4 max": (17.2, 546)}
"""Chip to fp32 TFLOPS of its GPU and GB/s of its memory, as Apple states them."""


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where a model can run, and the seconds of one inference there; `known` says what that number is."""

    name: str
    seconds: float
    known: NumberKind


def places(profile: Profile) -> tuple[RunPlace, ...]:
    """Engine, CPU and GPU, the fastest first; only those with figures for the chip. The engine's time is that of the
    profile, operations on the host left out; the others' are extrapolated from guesses."""
    found = [RunPlace("engine", profile.seconds, profile.time_kind)]
    operations = 2.0 * sum(row.multiplies for row in profile.rows)
    moved = profile.bytes_by_kind()
    traffic = moved["coefficients"] + moved["operands and results"]
    if profile.rates.chip in GPUS:
        peak, bandwidth = GPUS[profile.rates.chip]
        for name, rate, call, wide in (("gpu", peak, GPU_CALL, 1), ("cpu", CPU_PEAK, CPU_CALL, 2)):
            seconds = max(operations / (rate * TERA * REACHED), wide * traffic / (bandwidth * GIGA * REACHED))
            found.append(RunPlace(name, seconds + call, NumberKind.EXTRAPOLATED))
    return tuple(sorted(found, key=lambda place: place.seconds))


def verdict(found: tuple[RunPlace, ...], host: int = 0) -> str:
    """A sentence about the best place for a model of which `host` operations run on the host."""
    best = found[0]
    if len(found) < 2:
        return "no figures of this chip's CPU and GPU to compare with"
    if host:
        return (f"no place is called the better one: the time of {plural(host, 'operation')} on the host is not in "
                "these numbers")
    second = found[1]
    if second.seconds < CLEAR * best.seconds:
        return f"{best.name} and {second.name} are within a factor of {CLEAR:g}: measure"
    return f"the {best.name} is the better place, by a factor of about {second.seconds / best.seconds:.1f}"
