"""Machines, the chips in them and the generations of their engines, with clocks and bandwidths and how each is known.

Clocks come from tables in Apple's compiler, published by others; bandwidths and dispatch times from published
measurements and fits to them. An engine of n cores multiplies and adds 256 n fp16 pairs a cycle, which reproduces the
peak figures Apple publishes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache

from openane.chips import DEFAULT_TARGET, Chip, compiled_generations, generations, get_chip
from openane.errors import UnsupportedError
from openane.record_classes import dataclass

ALL = "all"
"""What stands for every generation that programs are compiled for, where several targets may be named."""
MULTIPLIERS = 256  # fp16 multiply-accumulates per core and cycle


class Known(StrEnum):
    """How surely a number is known."""

    STATED = "stated"      # by Apple
    TABLE = "table"        # read from tables of Apple's compiler or drivers
    MEASURED = "measured"  # on such a machine, published
    DERIVED = "derived"    # by arithmetic, or a fit to measurements
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Figure:
    """A number and how it is known; `value` None where it is not."""

    value: float | None = None
    known: Known | None = None

    def __str__(self) -> str:
        return "not known" if self.value is None else f"{self.value:g}"


UNKNOWN = Figure()


def _table(value: float) -> Figure:
    return Figure(value, Known.TABLE)


def _measured(value: float) -> Figure:
    return Figure(value, Known.MEASURED)


def _derived(value: float) -> Figure:
    return Figure(value, Known.DERIVED)


def _guess(value: float) -> Figure:
    return Figure(value, Known.GUESS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soc:
    """A chip. Clocks in GHz, bandwidths in GB/s, dispatch (one call through macOS) in microseconds.

    `variant` is what Apple's tables call its engine. `kernel` and `tile` are the two memory paths of one engine:
    coefficients, and operands with results together.
    """

    name: str
    generation: str
    variant: str = ""
    engines: int = 1
    cores: Figure = Figure(16, Known.TABLE)
    clock: Figure = UNKNOWN
    l2_clock: Figure = UNKNOWN
    fabric_clock: Figure = UNKNOWN
    kernel: Figure = UNKNOWN
    tile: Figure = UNKNOWN
    dispatch: Figure = UNKNOWN

    @property
    def peak(self) -> Figure:
        """Trillion fp16 operations a second of all its engines."""
        if self.clock.value is None or self.cores.value is None:
            return UNKNOWN
        return _derived(round(self.engines * self.cores.value * MULTIPLIERS * 2 * self.clock.value / 1000, 2))


def _clocks(clock: float, l2: float, fabric: float) -> dict[str, Figure]:
    return {"clock": _table(clock), "l2_clock": _table(l2), "fabric_clock": _table(fabric)}


_EIGHT = Figure(8, Known.TABLE)
_H13 = {"generation": "h13", "variant": "H13", **_clocks(1.428, 1.428, 0.9)}
_H13G = {"generation": "h13", "variant": "H13g", **_clocks(1.464, 1.464, 1.068), "kernel": _measured(51),
         "tile": _derived(42)}
_H14 = {"generation": "h14", "variant": "H14", **_clocks(1.938, 1.452, 0.9)}
_H15 = {"generation": "h15", "variant": "H15", **_clocks(2.064, 1.524, 0.9)}
_H16S = {"generation": "h16", "variant": "H16s", **_clocks(2.364, 1.788, 1.068), "kernel": _derived(126),
         "tile": _derived(75)}
_H17S = {"generation": "h17", "variant": "H17s", **_clocks(2.364, 1.788, 1.308), "kernel": _measured(150)}
_H15C = {"generation": "h15", "variant": "H15c", **_clocks(2.064, 1.524, 0.9), "kernel": _guess(102)}

SOCS: tuple[Soc, ...] = tuple(Soc(**row) for row in (
    {"name": "a12", "generation": "h11", "variant": "H11", "cores": _EIGHT, **_clocks(1.26, 1.26, 0.9)},
    {"name": "a13", "generation": "h12", "variant": "H12", "cores": _EIGHT},
    {"name": "a14", **_H13},
    {"name": "m1", **_H13, "kernel": _measured(51), "tile": _derived(42), "dispatch": _measured(190)},
    {"name": "m1 pro", **_H13G}, {"name": "m1 max", **_H13G, "dispatch": _measured(164)},
    {"name": "m1 ultra", **_H13G, "engines": 2},
    {"name": "a15", **_H14},
    {"name": "m2", **_H14, "kernel": _derived(48), "tile": _derived(36), "dispatch": _measured(107)},
    {"name": "m2 pro", "generation": "h14", "variant": "H14g"}, {"name": "m2 max", "generation": "h14"},
    {"name": "m2 ultra", "generation": "h14", "engines": 2},
    {"name": "a16", **_H15},
    {"name": "m3", **_H15, "kernel": _guess(51), "tile": _guess(45), "dispatch": _guess(180)},
    {"name": "m3 pro", **_H15}, {"name": "m3 max", **_H15C, "dispatch": _guess(180)},
    {"name": "m3 ultra", **_H15C, "engines": 2, "dispatch": _derived(250)},
    {"name": "a17 pro", "generation": "h16", "variant": "H16", **_clocks(2.16, 1.62, 0.9)},
    {"name": "m4", "generation": "h16", "variant": "H16g", **_clocks(2.364, 1.776, 1.068), "kernel": _measured(67),
     "tile": _derived(75), "dispatch": _measured(95)},
    {"name": "m4 pro", **_H16S}, {"name": "m4 max", **_H16S, "dispatch": _derived(116)},
    {"name": "a18", "generation": "h17"}, {"name": "a18 pro", "generation": "h17"},
    {"name": "m5", **_H17S, "dispatch": _measured(70)},
    {"name": "m5 pro", **_H17S, "dispatch": _measured(69)}, {"name": "m5 max", **_H17S},
    {"name": "a19", "generation": "h18"}, {"name": "a19 pro", "generation": "h18"},
    {"name": "m6", "generation": "h18", "variant": "H18g", **_clocks(2.508, 1.812, 1.308), "kernel": _measured(150),
     "tile": _measured(35), "dispatch": _measured(160)},
))

MACHINES: dict[str, tuple[str, ...]] = {
    "iPhone XS": ("a12",), "iPhone XR": ("a12",), "iPhone 11": ("a13",), "iPhone 11 Pro": ("a13",),
    "iPhone 12": ("a14",), "iPhone 12 Pro": ("a14",), "iPhone 13": ("a15",), "iPhone 13 Pro": ("a15",),
    "iPhone 14": ("a15",), "iPhone 14 Pro": ("a16",), "iPhone 15": ("a16",), "iPhone 15 Pro": ("a17 pro",),
    "iPhone 16": ("a18",), "iPhone 16 Pro": ("a18 pro",), "iPhone 17": ("a19",), "iPhone 17 Pro": ("a19 pro",),
    "iPad Air 2020": ("a14",), "iPad Air 2022": ("m1",), "iPad Air 2024": ("m2",), "iPad Air 2025": ("m3",),
    "iPad Pro 2021": ("m1",), "iPad Pro 2022": ("m2",), "iPad Pro 2024": ("m4",), "iPad Pro 2025": ("m5",),
    "MacBook Air 2020": ("m1",), "MacBook Air 2022": ("m2",), "MacBook Air 2023": ("m2",),
    "MacBook Air 2024": ("m3",), "MacBook Air 2025": ("m4",),
    "MacBook Pro 2020": ("m1",), "MacBook Pro 2021": ("m1 pro", "m1 max"), "MacBook Pro 2022": ("m2",),
    "MacBook Pro 2023": ("m2 pro", "m2 max", "m3", "m3 pro", "m3 max"), "MacBook Pro 2024": ("m4", "m4 pro", "m4 max"),
    "MacBook Pro 2025": ("m5",), "Mac mini 2020": ("m1",), "Mac mini 2023": ("m2", "m2 pro"),
    "Mac mini 2024": ("m4", "m4 pro"), "iMac 2021": ("m1",), "iMac 2023": ("m3",), "iMac 2024": ("m4",),
    "Mac Studio 2022": ("m1 max", "m1 ultra"), "Mac Studio 2023": ("m2 max", "m2 ultra"),
    "Mac Studio 2025": ("m4 max", "m3 ultra"), "Mac Pro 2023": ("m2 ultra",),
}
"""Machine to the chips it was made with, as Apple sells them."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a name stands for: one generation, and the chips of it that the name allows."""

    generation: str
    chips: tuple[Soc, ...]


@lru_cache(maxsize=256)
def find(name: str) -> Found:
    """The generation and chips a machine (`MacBook Air 2022`), chip (`m2`) or generation (`h14`) name stands for.

    Upper and lower case, blanks and hyphens do not matter. UnsupportedError names what is near, or what a machine's
    name leaves open.
    """
    wanted = _plain(name)
    for machine, names in MACHINES.items():
        if _plain(machine) == wanted:
            return _one_generation(machine, [soc for soc in SOCS if soc.name in names])
    if wanted in generations():
        return Found(wanted, chips_of(wanted))
    chips = tuple(soc for soc in SOCS if wanted == _plain(soc.name))
    if chips:
        return Found(chips[0].generation, chips)
    raise _unknown(name)


def _unknown(name: str) -> UnsupportedError:
    """The error for a name that nothing has, with what is near; or for none at all, as between two commas."""
    wanted = _plain(name)
    if not wanted.strip(","):
        return UnsupportedError("target", "no machine, chip or generation is named", found=name or "nothing",
                                remedy="see 'ane chips'")
    known = {_plain(n): n for n in (*MACHINES, *(s.name for s in SOCS), *generations())}
    near = [known[n] for n in difflib.get_close_matches(wanted, known, n=3)]
    return UnsupportedError(f"machine {name!r}", "no machine, chip or generation has this name", found=name,
                            limit=f"{_span(generations())}, {_span(_named('a'))}, {_span(_named('m'))}, or a machine",
                            remedy=f"did you mean {' or '.join(map(repr, near))}?" if near else "see 'ane chips'")


def target(name: str) -> Chip:
    """The generation that programs for a machine, chip or generation of this name are compiled for. UnsupportedError
    when the name is not known, or programs are not compiled for it."""
    chip = get_chip(find(name).generation)
    if not chip.facts.compiled:
        compiled = compiled_generations()
        raise UnsupportedError(f"target {name!r}", f"{chip.name} is known by name only", found=name,
                               limit=", ".join(compiled), remedy=f"compile for {compiled[0]}")
    return chip


def named_targets(names: str | Iterable[str]) -> tuple[str, ...]:
    """Targets as they are named, each once: a text may hold several between commas (no name has one), and `all` stands
    for every generation that programs are compiled for. UnsupportedError as `target`, and where none is named."""
    texts = [names] if isinstance(names, str) else list(names)
    found: dict[str, str] = {}
    for name in (part.strip() for text in texts for part in text.split(",")):
        for each in compiled_generations() if name.lower() == ALL else [name]:
            target(each)
            found.setdefault(_plain(each), each)
    if not found:
        raise UnsupportedError("targets", "at least one is named", found="none", remedy=f"name {ALL!r}, or see "
                               "'ane chips'")
    return tuple(found.values())


def own_target(name: str) -> str:
    """The generation that a program for a machine, chip or generation is compiled for where nobody names another: its
    own, or the default where none is compiled for that. UnsupportedError when the name is not known."""
    chip = get_chip(find(name).generation)
    return chip.name if chip.facts.compiled else DEFAULT_TARGET


def chips_of(generation: str) -> tuple[Soc, ...]:
    """The chips with an engine of `generation`."""
    return tuple(soc for soc in SOCS if soc.generation == generation)


def machines_with(chips: Iterable[Soc]) -> tuple[str, ...]:
    """Machines made with any of `chips`."""
    names = {soc.name for soc in chips}
    return tuple(machine for machine, made in MACHINES.items() if names & set(made))


def _one_generation(machine: str, chips: list[Soc]) -> Found:
    kinds = {soc.generation for soc in chips}
    if len(kinds) > 1:
        listed = ", ".join(f"{soc.name} ({soc.generation})" for soc in chips)
        raise UnsupportedError(f"machine {machine!r}", f"it was made with {listed}", limit="one chip", found=machine,
                               remedy=f"name the chip, for example {chips[0].name!r}")
    return Found(chips[0].generation, tuple(chips))


def _named(letter: str) -> list[str]:
    """Chips called by a letter and a number alone, as they are listed."""
    return [soc.name for soc in SOCS if soc.name[0] == letter and soc.name[1:].isdigit()]


def _span(names: Sequence[str]) -> str:
    return f"{names[0]} to {names[-1]}"


def _plain(name: str) -> str:
    return "".join(name.lower().replace("-", " ").replace("inch", " ").split())
