"""The named rules of the engine's arithmetic for `ane chips --arithmetic`: what, how it is known, on which chips."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openane.chips import generations
from openane.cli.output import wrapped
from openane.simulator.rules import RULES, Rule, Standing, generations_of, rules_of

INDENT = " " * 4
STANDINGS = {
    Standing.SOLVED: "reproduces published results bit for bit, as far as an error norm tells",
    Standing.MEASURED: "probed on a chip, published", Standing.EXECUTED: "Apple's programs compute the right thing so",
    Standing.INFERRED: "fits what is known, nothing tests it",
    Standing.UNPLACED: "measured, but of no task described here: not applied",
    Standing.CANDIDATE: "explains some measurements only: not applied"}


def rule_document(generation: str | None) -> list[dict[str, Any]]:
    """The rules of a generation (`h13`), or all, as plain data."""
    return [{"name": rule.name, "statement": rule.statement, "standing": str(rule.standing), "applied": rule.applied,
             "evidence": rule.evidence, "generations": list(generations_of(rule))} for rule in _rules(generation)]


def rule_lines(generation: str | None) -> Iterator[str]:
    """The same for people."""
    yield f"rules of the simulator's arithmetic{f' on {generation}' if generation else ''} (--arithmetic exact):"
    for rule in _rules(generation):
        followers = generations_of(rule)
        where = "all generations" if followers == generations() else ", ".join(followers)
        yield f"{rule.name}  [{rule.standing}, {where}{'' if rule.applied else ', not applied'}]"
        yield from wrapped(INDENT + rule.statement, INDENT)
        yield from wrapped(f"{INDENT}evidence: {rule.evidence}", INDENT)
    yield ""
    yield from (f"{standing:10} {meaning}" for standing, meaning in STANDINGS.items())


def _rules(generation: str | None) -> tuple[Rule, ...]:
    return RULES if generation is None else rules_of(generation)
