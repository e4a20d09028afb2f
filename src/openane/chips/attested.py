"""What owners of engines have attested and somebody has accepted: by fact, the files that say so, and parameters of the
timing model by chip.

`attested.json` and `attested_times.json` are changed by a patch that `ane evidence --prepare` makes and a person reads;
see docs/attesting.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import exp, log
from pathlib import Path
from statistics import median, pstdev
from typing import TypedDict

from openane.record_classes import dataclass

ATTESTED = Path(__file__).with_name("attested.json")
TIMES = Path(__file__).with_name("attested_times.json")

Said = Mapping[str, Sequence[Mapping[str, str]]]


@cache
def attested() -> Said:
    """By the name of a fact (`field/h17/PE.Cfg.Root`) what each accepted file says: its digest (`file`), `experiment`,
    `hypothesis`, and `level` (proved, seen, refuted)."""
    said: Said = json.loads(ATTESTED.read_text())
    return said


def machines(fact: str) -> str:
    """By how many machines a fact is proved, seen or refuted; empty where nobody has attested it."""
    levels = [each["level"] for each in attested().get(fact, ())]
    return ", ".join(f"{level} by {levels.count(level)} machine{'s' if levels.count(level) > 1 else ''}"
                     for level in dict.fromkeys(levels))


class AttestedTime(TypedDict):
    """What one file says of a parameter: its value in the unit of `UNITS`, one standard deviation as a factor, and how
    many runs it rests on."""

    file: str
    value: float
    scatter: float
    runs: int


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the machines that attested a parameter say together: the median, and its scatter as a factor, from machine
    to machine or within one where that is larger."""

    owner: str
    name: str
    value: float
    scatter: float
    machines: int

    def __str__(self) -> str:
        return (f"{self.name} {self.value:.4g} {UNITS[self.name]} within a factor of {self.scatter:.3g}, "
                f"by {self.machines} machine{'s' if self.machines > 1 else ''}")


UNITS = {"clock": "GHz", "l2_clock": "GHz", "kernel": "GB/s", "tile": "GB/s", "dispatch": "us"}
"""Of the parameters of the timing model, as `chips.machines.Soc` has them."""


@cache
def attested_times() -> Mapping[str, Mapping[str, Sequence[AttestedTime]]]:
    """By chip and way to its engine (`m4, macos`), and by parameter, what each accepted file says."""
    said: Mapping[str, Mapping[str, Sequence[AttestedTime]]] = json.loads(TIMES.read_text())
    return said


def agreed_times(chip: str = "") -> tuple[Agreed, ...]:
    """The attested parameters of a chip, or of all."""
    return tuple(_agreed(owner, name, said) for owner, known in sorted(attested_times().items())
                 if not chip or owner.partition(",")[0] == chip for name, said in sorted(known.items()))


def _agreed(owner: str, name: str, said: Sequence[AttestedTime]) -> Agreed:
    logs = [log(each["value"]) for each in said]
    scatter = max(exp(pstdev(logs)), *(each["scatter"] for each in said))
    return Agreed(owner, name, exp(median(logs)), scatter, len(said))
