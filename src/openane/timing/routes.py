"""What a call costs around the program: dispatch, and the copies a host makes of inputs and outputs.

Measured by others, per route and chip; a guess where nobody has measured. Through macOS a call costs more the longer
its program runs, up to a limit: the thread that waits sleeps, and a processor that has gone idle takes longer to wake
(M6, firmware timestamps beside the host's clock; M4 Max and M4, what calls cost above their programs).
"""

from __future__ import annotations

from enum import StrEnum

from openane.chips.machines import SOCS, Figure, Known, Soc, find

MICRO = 1e-6
LINUX = {"m1": 25.0, "m1 max": 40.0}
"""Microseconds of a synchronous, polled request of the Linux driver (measured)."""
LINUX_GUESS = 30.0
MACOS_GUESS = 150.0
COPIES = {"m1": (10.9, 4.7), "m1 max": (17.3, 5.4), "m4": (9.1, 9.1), "m2": (40.0, 40.0),
          "m5 pro": (24.0, 24.0), "m5": (24.0, 24.0)}
"""GB/s a host copies inputs and outputs at, where a measurement includes them (fitted to relu and reduce_sum rows)."""
COPY_GUESS = (10.0, 10.0)


WAKING: dict[str, tuple[float, float, Known]] = {
    "H18g": (195.0, 350.0, Known.MEASURED), "H16s": (60.0, 200.0, Known.DERIVED),
    "H16g": (20.0, 200.0, Known.DERIVED)}
"""By engine: microseconds that the waiting host's sleep adds to a call at most, and those the engine must be busy for
that; in proportion before. H18g: completions of M6 take 130, beyond some 350 of work 325 (firmware timestamps). H16s
(M4 Max) and H16g (M4): fitted. M5 Pro and M1 Max show none; others are not known and get none. The rest of a call is a
chip's `dispatch`. It differs between sessions and ways to call: on M4 Max 95 in the session fitted to, 93, 131 and 157
in a study of three ways, of which the chip has the geometric mean."""


class SubmissionRoute(StrEnum):
    """How a program is handed to the engine."""

    ENGINE = "engine"  # nothing but the engine
    LINUX = "linux"    # a request of the accel driver
    MACOS = "macos"    # an evaluation through the system's framework


def dispatch(chip: str, route: SubmissionRoute, busy: float = 0.0) -> Figure:
    """Seconds one call costs on a route, around a program that keeps the engine `busy` for that many seconds."""
    if route is SubmissionRoute.ENGINE:
        return Figure(0.0, Known.DERIVED)
    if route is SubmissionRoute.LINUX:
        polled = LINUX.get(chip)
        return Figure((polled or LINUX_GUESS) * MICRO, Known.MEASURED if polled else Known.GUESS)
    soc = find(chip).chips[0]
    figure = soc.dispatch if soc.dispatch.value else _like(soc)
    asleep = waking(chip, busy)
    known = figure.known if not asleep or figure.known is Known.GUESS else WAKING[soc.variant][2]
    return Figure((figure.value or MACOS_GUESS) * MICRO + asleep, known)


def waking(chip: str, busy: float) -> float:
    """Seconds that a call through macOS costs more since the host slept while the engine was `busy`, in seconds."""
    most, settled, _ = WAKING.get(find(chip).chips[0].variant, (0.0, 1.0, Known.GUESS))
    return most * MICRO * min(1.0, busy / (settled * MICRO))


def _like(chip: Soc) -> Figure:
    """The dispatch of the chip most like one nobody has measured: of its engine, else its generation."""
    near = [soc for soc in SOCS if soc.generation == chip.generation and soc.dispatch.value]
    near.sort(key=lambda soc: soc.variant != chip.variant)
    return Figure(near[0].dispatch.value if near else MACOS_GUESS, Known.GUESS)


def copies(chip: str, read: int, written: int) -> Figure:
    """Seconds a host takes to copy that many bytes in and out of surfaces."""
    rates = COPIES.get(chip)
    into, out = rates or COPY_GUESS
    return Figure(read / (into * 1e9) + written / (out * 1e9), Known.DERIVED if rates else Known.GUESS)
