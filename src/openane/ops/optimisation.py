"""How far a graph's programs are to be optimised, and by which choices: both stand in the graph's metadata, so that
whatever compiles the graph again does the same."""

from __future__ import annotations

from dataclasses import asdict, replace

from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.record_classes import dataclass

LEVEL, CHOICES = "optimise", "optimise choices"
"""The keys in the metadata of a graph."""
LEVELS = range(4)


@dataclass(frozen=True, slots=True)
class Choices:
    """What may be one way or another without changing what a program computes. `strip_bytes`: the largest tensor
    inside a region that is computed in strips, 0 for none; `strip_products`: whether products with constant weights,
    which are fetched again for every strip, belong to regions."""

    strip_bytes: int = 0
    strip_products: int = 0

    @property
    def text(self) -> str:
        """The choices as metadata."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())

    @staticmethod
    def read(text: str) -> Choices:
        """The choices of such a text; what it does not say, or says of something unknown, is as it is by default."""
        known = asdict(Choices())
        pairs = (word.partition("=") for word in text.split())
        return Choices(**{name: int(value) for name, _, value in pairs if name in known and value.isdigit()})


BY_LEVEL = (Choices(), Choices(1 << 19), Choices(1 << 19), Choices(1 << 19))
"""What a level chooses without looking at modelled time."""


def with_level(graph: Graph, level: int) -> Graph:
    """The graph, to be optimised at a level of LEVELS. UnsupportedError for another number."""
    if level not in LEVELS:
        raise UnsupportedError("optimise", "there are levels 0 to 3", found=level, limit="0 to 3")
    if level == level_of(graph):
        return graph
    kept = {key: value for key, value in graph.metadata.items() if key not in (LEVEL, CHOICES)}
    return replace(graph, metadata=kept | ({LEVEL: str(level)} if level else {}))


def level_of(graph: Graph) -> int:
    """How far a graph is to be optimised; 0 where nothing is said of it."""
    said = graph.metadata.get(LEVEL, "0")
    return int(said) if said in map(str, LEVELS) else 0


def with_choices(graph: Graph, choices: Choices) -> Graph:
    """The graph, to be compiled by these choices."""
    return replace(graph, metadata={**graph.metadata, CHOICES: choices.text})


def choices_of(graph: Graph) -> Choices:
    """The choices a graph is to be compiled by: those that were made, else its level's."""
    said = graph.metadata.get(CHOICES)
    return BY_LEVEL[level_of(graph)] if said is None else Choices.read(said)
