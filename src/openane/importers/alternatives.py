"""One model in several shapes: the shapes are given as alternatives, `ids=1x{32,64}`, and become a function each.

A text may have 20 words or 200, and the engine's programs are of one shape. So a model is imported once for every shape
it is to take, as a function of its own; whoever runs it takes the smallest that fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from openane.errors import GraphError
from openane.graph import Graph
from openane.importers import load_graph
from openane.importers.shapes import Values

Extents = Sequence[int | Sequence[int]]
"""A shape whose dimensions may have alternatives: (1, (32, 64))."""


def each_shape(shapes: Mapping[str, Extents]) -> dict[str, dict[str, tuple[int, ...]]]:
    """The shapes one after another, by what tells them apart (`32`, or `224x320`): the first alternative of every
    dimension that has some, the second of every such dimension, and so on. GraphError where dimensions have another
    number of alternatives than others, or the same shape is there twice."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for number in range(_alternatives(shapes)):
        own = {name: tuple(extent if isinstance(extent, int) else extent[number] for extent in extents)
               for name, extents in shapes.items()}
        called = "x".join(map(str, dict.fromkeys(extent[number] for _, extent in _changing(shapes))))
        if called in found:
            raise GraphError(f"the alternative {called} is there twice")
        found[called] = own
    return found


def _changing(shapes: Mapping[str, Extents]) -> list[tuple[str, Sequence[int]]]:
    """The dimensions that have alternatives, each with the input it is of."""
    return [(name, extent) for name, extents in shapes.items() for extent in extents if not isinstance(extent, int)]


def _alternatives(shapes: Mapping[str, Extents]) -> int:
    """How many alternatives there are."""
    counts = {len(extent): name for name, extent in _changing(shapes)}
    if len(counts) > 1:
        stated = ", ".join(f"{name!r} {count}" for count, name in counts.items())
        raise GraphError(f"dimensions that change do so together, and must have equally many alternatives; a dimension "
                         f"of each of these has so many: {stated}")
    return next(iter(counts), 1)


def load_shapes(path: str | Path, shapes: Mapping[str, Extents], function: str | None = None,
                values: Values | None = None, limit: int | None = None) -> tuple[Graph, ...]:
    """The model of a file once for each of the `shapes`, smallest first, as graphs called `main_32`, `main_64`, ... for
    `openane.compile_shapes`. Errors as for `load_graph`; GraphError where alternatives do not fit together."""
    graphs = [(own, called, load_graph(path, own, function, values, limit))
              for called, own in each_shape(shapes).items()]
    graphs.sort(key=lambda each: sum(value.type.elements for value in each[2].inputs))
    return tuple(replace(graph, name=f"{graph.name}_{called}" if called else graph.name) for _, called, graph in graphs)
