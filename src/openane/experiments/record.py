"""What an experiment states: a question, the facts it decides, what is run, and what each hypothesis would show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from openane.chips import compiled_generations
from openane.graph import Graph

Arrays = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""Numbers of an input: a generator of the trial's seed, and the shape."""


DECOY = 1000
"""What a decoy adds to a seed."""


class Kind(StrEnum):
    """What of a run tells hypotheses apart."""

    VALUES = "values"        # the numbers that come out
    TIMES = "times"          # how long it takes
    INTERFACE = "interface"  # whether it is taken
    WORDS = "words"          # what Apple's compiler states; nothing is run


class Risk(StrEnum):
    """Whether Apple's programs have tasks of this form."""

    SAFE = "safe"
    NEW = "new"


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers as most networks have them."""
    return generator.standard_normal(shape).astype(np.float16)


@dataclass(frozen=True, slots=True)
class Trial:
    """One program and its inputs. `fields` are patterns of the register fields that a WORDS trial looks at."""

    name: str
    graph: Callable[[], Graph]
    draw: Draw = normal
    seed: int = 0
    fields: tuple[str, ...] = ()

    def inputs(self, shapes: Mapping[str, tuple[int, ...]], decoy: bool = False) -> Arrays:
        """The inputs by name, drawn in the order of the names; those of a decoy are others."""
        generator = np.random.default_rng(self.seed + DECOY * decoy)
        return {name: self.draw(generator, shape) for name, shape in sorted(shapes.items())}


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible truth: `engine` is how an engine of which it is true differs from the one that is believed in
    (`simulator.variation`). An `otherwise` stands for every outcome that no other hypothesis predicts, of which
    `engine` makes one."""

    name: str
    statement: str
    engine: str = ""
    otherwise: bool = False

    @property
    def believed(self) -> bool:
        """Whether it says that everything is as the tables have it."""
        return not self.engine


@dataclass(frozen=True, slots=True)
class Experiment:
    """`decides` are patterns of the facts (`facts.Fact.name`) that it moves. `value` orders experiments of one risk,
    the largest first."""

    name: str
    question: str
    kind: Kind
    decides: tuple[str, ...]
    trials: tuple[Trial, ...]
    hypotheses: tuple[Hypothesis, ...]
    risk: Risk = Risk.SAFE
    value: int = 1
    generations: tuple[str, ...] = ()

    @property
    def asked_of(self) -> tuple[str, ...]:
        """The generations that are asked."""
        return self.generations or compiled_generations()

    def hypothesis(self, name: str) -> Hypothesis:
        """The hypothesis of this name. KeyError where there is none."""
        return {each.name: each for each in self.hypotheses}[name]

    def trial(self, name: str) -> Trial:
        """The trial of this name. KeyError where there is none."""
        return {each.name: each for each in self.trials}[name]


__all__ = ["Arrays", "Draw", "Experiment", "Hypothesis", "Kind", "Risk", "Trial", "normal"]
