"""How fast one engine of a chip is, in hertz and bytes a second, and how each number is known."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum

from openane.chips import Limits, get_chip
from openane.chips.machines import Figure, Known, Soc, chips_of, find
from openane.errors import UnsupportedError
from openane.record_classes import dataclass
from openane.timing.parameters import BELIEVED, TimingParameters

GIGA = 1e9


class ClockState(StrEnum):
    """How far the system has raised the engine's clock. It rises within some 50 ms of work and falls after 100 ms."""

    FULL = "full"
    RISING = "rising"  # calls on their own, some time apart
    LOWEST = "lowest"  # nobody raises it: Linux


FACTORS = {
    ClockState.FULL: (1.0, 1.0, 1.0),
    ClockState.RISING: (0.6, 0.6, 0.6),
    ClockState.LOWEST: (0.295, 0.28, 0.19),
}
"""Clock, coefficient and tile paths against those at full clock. Lowest: 0.432 of 1.464 GHz, and fits to two
measurements on Linux (M1 Max). Rising: fitted to isolated calls on M1 and M5."""
REPEATED_PAYLOAD = {"H16s": 0.33}
"""What is left of the coefficient path where the pieces of all cores start at the same place modulo 1 MiB, by engine:
fitted to layers of 4096 and 8192 channels on M4 Max; H17s (M5 Pro) has no such loss, others are not known."""


@dataclass(frozen=True, slots=True)
class Rates:
    """One engine. `kernel` is the path of coefficients, `tile` that of operands and results together."""

    chip: str
    generation: str
    cores: Figure
    clock: Figure
    l2_clock: Figure
    kernel: Figure
    tile: Figure
    repeated_payload: float = 1.0

    @property
    def limits(self) -> Limits:
        """What the generation's fields and memories allow."""
        return get_chip(self.generation).limits

    @property
    def winograd(self) -> bool:
        """Whether dense 3x3 convolutions of stride 1 run through F(2, 3) along the width: solved from error norms of
        M5, M5 Pro and M6; M6's 3x3 layers are some 1.45 times as fast (measured)."""
        return get_chip(self.generation).arithmetic.winograd

    @property
    def guessed(self) -> tuple[str, ...]:
        """Names of the numbers nobody has measured, stated or read from a table."""
        return tuple(f.name for f in fields(self) if isinstance(figure := getattr(self, f.name), Figure)
                     and figure.known is Known.GUESS)


def rates(soc: Soc | str, state: ClockState = ClockState.FULL, parameters: TimingParameters = BELIEVED) -> Rates:
    """The rates of a chip (`m1`, or a machine's name). UnsupportedError when the name is not known or stands for
    engines of different speed."""
    chip = _chip(soc) if isinstance(soc, str) else soc
    near = _nearest(chip)
    clock = chip.clock if chip.clock.value else _guess(near.clock)
    l2_clock = chip.l2_clock if chip.l2_clock.value else _guess(near.l2_clock)
    fabric = chip.fabric_clock if chip.fabric_clock.value else _guess(near.fabric_clock)
    kernel = chip.kernel if chip.kernel.value else _kernel(fabric, parameters)
    tile = chip.tile if chip.tile.value else _tile(chip, parameters)
    core, coefficients, operands = FACTORS[state]
    return Rates(chip.name, chip.generation, chip.cores, _scaled(clock, core), _scaled(l2_clock, core),
                 _scaled(kernel, coefficients), _scaled(tile, operands), REPEATED_PAYLOAD.get(chip.variant, 1.0))


def _chip(name: str) -> Soc:
    found = find(name)
    first = next((soc for soc in found.chips if soc.name.startswith("m")), found.chips[0])
    if len(found.chips) > 1 and found.chips != chips_of(found.generation):
        speeds = {(soc.clock.value, soc.kernel.value, soc.tile.value) for soc in found.chips}
        if len(speeds) > 1:
            raise UnsupportedError(f"machine {name!r}", "it was made with chips of different speed",
                                   found=", ".join(soc.name for soc in found.chips), remedy="name the chip")
    return first


def _nearest(chip: Soc) -> Soc:
    """A chip of the same generation whose clocks are known, else M1."""
    for soc in find(chip.generation).chips:
        if soc.clock.value:
            return soc
    return find("m1").chips[0]


def _tile(chip: Soc, parameters: TimingParameters) -> Figure:
    """The tile path of a chip of the same generation, else M1's: a guess either way."""
    known = [soc.tile for soc in find(chip.generation).chips if soc.tile.value]
    return _guess(known[0]) if known else \
        Figure(parameters.tile_fallback.value / GIGA, parameters.tile_fallback.known)


def _kernel(fabric: Figure, parameters: TimingParameters) -> Figure:
    known = Known.GUESS if fabric.known is Known.GUESS else Known.DERIVED
    return Figure((fabric.value or 0.0) * 64 * parameters.kernel_efficiency.value, known)


def _scaled(figure: Figure, factor: float) -> Figure:
    """Giga units as units, times a factor that is a fit where it is not 1; a guess stays one."""
    known = figure.known if factor == 1 or figure.known is Known.GUESS else Known.DERIVED
    return Figure((figure.value or 0.0) * GIGA * factor, known)


def _guess(figure: Figure) -> Figure:
    return Figure(figure.value, Known.GUESS)
