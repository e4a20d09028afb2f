"""Every fact that the tables mark inferred, assumed, guessed or open, and who decides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from openane.chips import compiled_generations, generations, get_chip
from openane.chips.machines import SOCS, Figure, Known
from openane.experiments.record import Experiment
from openane.experiments.shelf import experiments
from openane.registers import Evidence
from openane.simulator.rules import RULES, Standing

FIGURES = ("clock", "l2_clock", "fabric_clock", "kernel", "tile", "dispatch")
OPEN_RULES = (Standing.INFERRED, Standing.UNPLACED, Standing.CANDIDATE)
UNDESCRIBED = "no task of this generation is described, so nothing can be compiled for it"


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is not known surely. `name` is `kind/owner/what`; `says` is what the tables say of it."""

    name: str
    says: str

    @property
    def owner(self) -> str:
        """The generation or chip it is of."""
        return self.name.split("/")[1]


@cache
def open_facts() -> tuple[Fact, ...]:
    """All of them, in the order of the tables."""
    return (*_fields(), *_limits(), *_sentences(), *_figures(), *_rules())


def _fields() -> Iterator[Fact]:
    for generation in compiled_generations():
        chip = get_chip(generation)
        for bank in (chip.header, chip.bank):
            for block in bank.blocks:
                for register in block.registers:
                    yield from (Fact(f"field/{generation}/{block.name}.{register.name}.{field.name}",
                                     field.doc or register.doc or "named by public register maps")
                                for field in register.fields if field.evidence is Evidence.INFERRED)


def _limits() -> Iterator[Fact]:
    for generation in generations():
        yield from (Fact(f"limit/{generation}/{name}", "carried over from an earlier generation, or a field's width")
                    for name in get_chip(generation).limits.assumed)


def _sentences() -> Iterator[Fact]:
    for generation in generations():
        yield from (Fact(f"inferred/{generation}/{number}", text)
                    for number, text in enumerate(get_chip(generation).facts.inferred))


def _figures() -> Iterator[Fact]:
    for soc in SOCS:
        for name in FIGURES:
            figure: Figure = getattr(soc, name)
            if figure.known in (None, Known.DERIVED, Known.GUESS):
                yield Fact(f"figure/{soc.name}/{name}", f"{figure} ({figure.known or 'not known'})")


def _rules() -> Iterator[Fact]:
    yield from (Fact(f"rule/all/{rule.name}", rule.statement) for rule in RULES if rule.standing in OPEN_RULES)


def deciders(fact: Fact) -> tuple[Experiment, ...]:
    """The experiments that decide a fact, for its generation; none where there is a reason against it."""
    if reason(fact):
        return ()
    return tuple(each for each in experiments() if any(fnmatchcase(fact.name, pattern) for pattern in each.decides)
                 and (fact.owner not in generations() or fact.owner in each.asked_of))


def reason(fact: Fact) -> str:
    """Why no experiment can decide a fact; empty where one may."""
    return next((why for pattern, why in REASONS.items() if fnmatchcase(fact.name, pattern)), "")


REASONS = {
    "limit/h11/*": UNDESCRIBED, "limit/h12/*": UNDESCRIBED, "figure/a12/*": UNDESCRIBED, "figure/a13/*": UNDESCRIBED,
    "figure/*/fabric_clock": "it shows in nothing but the bandwidths that are measured themselves",
    "limit/*/depth": "tensors so deep do not fit into memory that programs may have",
    "limit/*/groups": "tensors of so many groups do not fit into memory that programs may have",
    "limit/*/width": "a program at the limit is one that the verifier refuses beyond it",
    "limit/*/height": "a program at the limit is one that the verifier refuses beyond it",
    "figure/a1*/*": "telephones and tablets run no program that their system does not sign",
}
"""Reasons by patterns of facts."""

__all__ = ["REASONS", "Fact", "deciders", "open_facts", "reason"]
