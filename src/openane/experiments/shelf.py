"""All experiments, in the order in which they are run: safe ones first, the most valuable of them first."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import import_module
from pathlib import Path

from openane.errors import UnsupportedError
from openane.experiments.record import Experiment, Risk


@cache
def experiments() -> tuple[Experiment, ...]:
    """Every module of the library has one."""
    folder = Path(__file__).with_name("library")
    found: list[Experiment] = [import_module(f"openane.experiments.library.{path.stem}").EXPERIMENT
                               for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
    return tuple(sorted(found, key=lambda each: (each.risk is Risk.NEW, -each.value, each.name)))


def find_experiment(name: str) -> Experiment:
    """The experiment of this name. UnsupportedError where there is none."""
    for each in experiments():
        if each.name == name:
            return each
    raise UnsupportedError(f"experiment {name[:80]!r}", "it is none of the library", found=name[:80],
                           remedy="'ane attest --list' lists them")


@cache
def library_digest() -> str:
    """Says which experiments these are: a digest of what each states."""
    text = "\n".join(repr((e.name, e.question, e.kind, e.decides, [(t.name, t.seed, t.fields) for t in e.trials],
                           e.hypotheses, e.risk)) for e in experiments())
    return hashlib.sha256(text.encode()).hexdigest()
