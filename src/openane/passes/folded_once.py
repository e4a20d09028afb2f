"""What two runs of the passes over one graph make alike is made once: ranges are measured on a folded graph, and the
graph is then compiled from its beginning."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from functools import wraps
from itertools import islice

import numpy as np

from openane.graph import Graph, Node, RoundedConstant, Value
from openane.graph.budget import STATED
from openane.ops.accuracy import FUNCTIONS
from openane.ops.late_constant import LateConstant
from openane.record_classes import dataclass

Key = tuple[int, bool, int, bytes]
Folded = tuple[Node, tuple[Node, ...]]
"""A node, and those behind it that are folded into it."""
Pass = Callable[[Graph], Graph]
READ = (FUNCTIONS, STATED)
"""What passes read of a graph's metadata."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What was made; weights and nodes, as far as they were not asked for again.

    `graphs`, by a pass, what it reads of a graph's metadata, and the ids of its outputs and nodes: that graph, and what
    the pass made of it. `weights`, by the id of a weight's array, whether it has more digits, the id of how it is
    multiplied, and the bytes of its gains: the array, which thereby keeps its id, and what the weight became. `nodes`,
    by the ids of a node and those behind it, and how they are folded: these nodes, what became of them, and the weights
    that were made for it.
    """

    graphs: dict[tuple[object, ...], tuple[Graph, Graph]] = field(default_factory=dict)
    weights: dict[Key, tuple[np.ndarray, Value]] = field(default_factory=dict)
    nodes: dict[tuple[bool, tuple[int, ...]], tuple[Sequence[Node], Folded, tuple[Key, ...]]] = field(
        default_factory=dict)


_MADE: ContextVar[_Made] = ContextVar("folded weights")


@contextmanager
def folded_once() -> Iterator[None]:
    """While this lasts `folded` gives again what it made of the same weight before."""
    token = _MADE.set(_Made())
    try:
        yield
    finally:
        _MADE.reset(token)


def made_once(rewrite: Pass) -> Pass:
    """The pass, which gives again what it made of the same nodes before, while `folded_once` lasts."""
    @wraps(rewrite)
    def remembered(graph: Graph) -> Graph:
        made = _MADE.get(None)
        if made is None:
            return rewrite(graph)
        key = (rewrite, *map(graph.metadata.get, READ), *map(id, graph.outputs), None, *map(id, graph.nodes))
        if key not in made.graphs:
            made.graphs[key] = graph, rewrite(graph)
        before, result = made.graphs[key]
        return graph if result is before else result.within(graph)

    return remembered


def folded(weight: Value, product: object, gains: bytes, make: Callable[[], Value]) -> Value:
    """What `make` makes of a weight that is multiplied as `product` says and takes gains of these bytes; the constant
    it made before, which is not kept any longer, while `folded_once` lasts."""
    made = _MADE.get(None)
    if made is None:
        return make()
    key = _key(weight, product, gains)
    if key in made.weights:
        return made.weights.pop(key)[1]
    result = make()
    made.weights[key] = _held(weight), result
    return result


def folded_nodes(nodes: Sequence[Node], digits: bool, make: Callable[[], Folded]) -> Folded:
    """What `make` makes of a node and those behind it, with `digits` or without; what it made of the same nodes before,
    which is not kept any longer, while `folded_once` lasts."""
    made = _MADE.get(None)
    if made is None:
        return make()
    key = digits, tuple(map(id, nodes))
    known = made.nodes.pop(key, None)
    if known is not None:
        for weight in known[2]:
            made.weights.pop(weight, None)
        return known[1]
    before = len(made.weights)
    result = make()
    made.nodes[key] = nodes, result, tuple(islice(reversed(made.weights), max(0, len(made.weights) - before)))
    return result


def was_folded(weight: Value, product: object, gains: bytes) -> bool:
    """Whether `folded` has what it would make."""
    made = _MADE.get(None)
    return made is not None and _key(weight, product, gains) in made.weights


def _held(weight: Value) -> np.ndarray:
    """The array that a weight is known by."""
    return weight.digits() if isinstance(weight, LateConstant) else weight.array()


def _key(weight: Value, product: object, gains: bytes) -> Key:
    return id(_held(weight)), isinstance(weight, RoundedConstant), id(product), gains
