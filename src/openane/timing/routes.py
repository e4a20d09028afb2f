"""What a call costs around the program: dispatch, and the copies a host makes of inputs and outputs.

Measured by others, per route and chip; a guess where nobody has measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from openane.chips.machines import Figure, Known, find

MICRO = 1e-6
LINUX = {"m1": 25.0, "m1 max": 40.0}
"""Microseconds of a synchronous, polled request of the Linux driver (measured)."""
LINUX_GUESS = 30.0
MACOS_GUESS = 150.0
COPIES = {"m1": (10.9, 4.7), "m1 max": (17.3, 5.4), "m4": (9.1, 9.1), "m2": (40.0, 40.0),
          "m5 pro": (24.0, 24.0), "m5": (24.0, 24.0)}
"""GB/s a host copies inputs and outputs at, where a measurement includes them (fitted to relu and reduce_sum rows)."""
COPY_GUESS = (10.0, 10.0)


class Route(StrEnum):
    """How a program is handed to the engine."""

    ENGINE = "engine"  # nothing but the engine
    LINUX = "linux"    # a request of the accel driver
    MACOS = "macos"    # an evaluation through the system's framework


@dataclass(frozen=True, slots=True)
class Overhead:
    """Seconds around a program."""

    dispatch: Figure
    copies: Figure


def dispatch(chip: str, route: Route) -> Figure:
    """Seconds one call costs on a route."""
    if route is Route.ENGINE:
        return Figure(0.0, Known.DERIVED)
    if route is Route.LINUX:
        known = LINUX.get(chip)
        return Figure((known or LINUX_GUESS) * MICRO, Known.MEASURED if known else Known.GUESS)
    figure = find(chip).chips[0].dispatch
    return Figure((figure.value or MACOS_GUESS) * MICRO, figure.known if figure.value else Known.GUESS)


def copies(chip: str, read: int, written: int) -> Figure:
    """Seconds a host takes to copy that many bytes in and out of surfaces."""
    rates = COPIES.get(chip)
    into, out = rates or COPY_GUESS
    return Figure(read / (into * 1e9) + written / (out * 1e9), Known.DERIVED if rates else Known.GUESS)
