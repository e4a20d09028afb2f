"""Inputs of a graph, drawn where nobody gives any."""

from __future__ import annotations

import numpy as np

from openane.graph import Graph, Value, numpy_type
from openane.graph.types import limits
from openane.ops import all_ops
from openane.ops.half_bits import to_half

FLAGS = 2
"""What integers are drawn below where nothing says what they count."""


class Drawn(dict[str, np.ndarray]):
    """Inputs that nobody gave, for reports of what was made of them."""


def drawn(graph: Graph, seed: int = 0) -> Drawn:
    """One sample from a seed: standard normal numbers, positions below the length of the table they are for, other
    integers 0 and 1, masks (inputs with "mask" in their name) all ones."""
    rng = np.random.default_rng(seed)
    counts = _table_lengths(graph)
    return Drawn((value.name, _drawn(value, rng, counts.get(id(value), FLAGS))) for value in graph.inputs)


def table_lengths(graph: Graph) -> dict[str, int]:
    """By the name of an input whose integers are positions in tables of the graph: how long the shortest one is."""
    counts = _table_lengths(graph)
    return {value.name: counts[id(value)] for value in graph.inputs if id(value) in counts}


def _drawn(value: Value, rng: np.random.Generator, count: int) -> np.ndarray:
    dtype = numpy_type(value.dtype)
    if "mask" in value.name:
        return np.ones(value.shape, dtype)
    if dtype.kind == "f":
        numbers = rng.standard_normal(value.shape, np.float32)
        return to_half(numbers) if dtype == np.float16 else numbers.astype(dtype)
    most = FLAGS if dtype.kind == "b" else min(count, limits(value.dtype)[1])
    return rng.integers(0, most, value.shape).astype(dtype)


def _table_lengths(graph: Graph) -> dict[int, int]:
    """How many rows the shortest constant table has that an input, or a copy of it in another shape or element type,
    names rows of; by id of the input."""
    origin = {id(value): id(value) for value in graph.inputs}
    found: dict[int, int] = {}
    for node in graph.nodes:
        op, first = all_ops().get(node.op), node.get("x")
        if op is None or first is None:
            continue
        if id(first) in origin and (op.casts or op.views(node)):
            origin |= {id(value): origin[id(first)] for value in node.outputs}
        place = origin.get(id(node.get(op.positions)))
        if place is not None and first.constant and "x" in op.channels_of:
            rows = first.shape[op.channels_of["x"](node)]
            found[place] = min(rows, found.get(place, rows))
    return found
