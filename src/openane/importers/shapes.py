"""Shapes: those a caller gives for the inputs of a model, beside those the model states, and what becomes of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from numpy.typing import ArrayLike

from openane.errors import GraphError
from openane.graph import Graph

Shapes = Mapping[str, Sequence[int]]
Values = Mapping[str, ArrayLike]
"""What inputs are that are constants of the run, by name."""


def only_inputs(given: Iterable[str], inputs: Iterable[str], what: str = "a shape") -> None:
    """GraphError when something is given for what is no input of the model."""
    known = list(inputs)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise GraphError(f"{what} is given for {unknown!r}, which is no input; inputs are "
                         f"{', '.join(known) or 'none'}")


def agreeing(graph: Graph, given: Shapes, what: str) -> Graph:
    """The graph of a model that states every shape, `what` in messages. GraphError when another one is given."""
    known = {value.name: value.shape for value in graph.inputs}
    for name, shape in given.items():
        if known.get(name) != tuple(shape):
            raise GraphError(f"shape {list(shape)} for input {name!r}: {what} states "
                             f"{', '.join(f'{key} {list(extents)}' for key, extents in known.items())}")
    return graph


def with_ones(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...] | None:
    """A shape that has one element along these axes of the result besides; None where one is out of range or named
    twice."""
    rank = len(shape) + len(axes)
    places = {axis + rank if axis < 0 else axis for axis in axes}
    if len(places) < len(axes) or not places.issubset(range(rank)):
        return None
    extents = iter(shape)
    return tuple([1 if place in places else next(extents) for place in range(rank)])
