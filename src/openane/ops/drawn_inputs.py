"""Inputs of a graph, drawn where nobody gives any."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from openane.graph import Graph, Node, TensorType, Value, numpy_type
from openane.graph.types import limits
from openane.ops import all_ops
from openane.ops.half_bits import to_half
from openane.ops.spec import Op

FLAGS = 2
"""What integers are drawn below where nothing says what they count."""
FEW = 1 << 19
"""Inputs of so many elements altogether, at most, are drawn once for all models."""
Asked = tuple[TensorType, bool, int]
"""The type of an input, whether it is a mask, and what its integers are below."""


FAR = 1.5
"""How large the largest of some ten standard normal numbers is."""


class Drawn(dict[str, np.ndarray]):
    """Inputs that nobody gave, for reports of what was made of them."""


def drawn(graph: Graph, seed: int = 0) -> Drawn:
    """One sample from a seed: standard normal numbers, of which the largest is as large as that of some ten,
    positions below the length of the table they are for, other integers 0 and 1, masks (inputs with "mask" in their
    name) all ones."""
    counts = _table_lengths(graph)
    asked = tuple((value.type, "mask" in value.name, counts.get(id(value), FLAGS)) for value in graph.inputs)
    few = sum(value.type.elements for value in graph.inputs) <= FEW
    return Drawn(zip([value.name for value in graph.inputs], _drawn_again(asked, seed) if few else _all(asked, seed),
                     strict=True))


def table_lengths(graph: Graph) -> dict[str, int]:
    """By the name of an input whose integers are positions in tables of the graph: how long the shortest one is."""
    counts = _table_lengths(graph)
    return {value.name: counts[id(value)] for value in graph.inputs if id(value) in counts}


@lru_cache(maxsize=4)
def _drawn_again(asked: tuple[Asked, ...], seed: int) -> tuple[np.ndarray, ...]:
    """As `_all`; the last few are kept, as models are compiled for the same inputs again and again."""
    return _all(asked, seed)


def _all(asked: tuple[Asked, ...], seed: int) -> tuple[np.ndarray, ...]:
    """What is drawn of a seed, to be read."""
    rng = np.random.default_rng(seed)
    found = tuple(_drawn(*each, rng) for each in asked)
    for array in found:
        array.flags.writeable = False
    return found


def _drawn(kind: TensorType, mask: bool, count: int, rng: np.random.Generator) -> np.ndarray:
    dtype = numpy_type(kind.dtype)
    if mask:
        return np.ones(kind.shape, dtype)
    if dtype.kind == "f":
        numbers = _as_far(rng.standard_normal(kind.shape, np.float32))
        return to_half(numbers) if dtype == np.float16 else numbers.astype(dtype)
    most = FLAGS if dtype.kind == "b" else min(count, limits(kind.dtype)[1])
    return rng.integers(0, most, kind.shape).astype(dtype)


def _as_far(numbers: np.ndarray) -> np.ndarray:
    """Few numbers times what makes their largest one as large as that of many. One alone may be near 0, and whatever
    is computed of it would seem to be small."""
    largest = float(np.abs(numbers).max(initial=0.0))
    return np.asarray(numbers * np.float32(FAR / largest)) if 0 < largest < FAR else numbers


def _table_lengths(graph: Graph) -> dict[int, int]:
    """How many rows the shortest table has that an input of integers, or a copy of it in another shape or element type,
    names rows of; by id of the input. A table is what no input decides: weights, packed ones among them."""
    origin, found = _of_integers(graph), dict[int, int]()
    decided = _decided(graph) if origin else set[int]()
    for node in graph.nodes if origin else ():
        op, first = all_ops().get(node.op), node.get("x")
        if op is None:
            continue
        copied = [origin[id(value)] for value in _copied(op, node) if id(value) in origin]
        origin |= {id(value): copied[0] for value in node.outputs if copied}
        place = origin.get(id(node.get(op.positions)))
        if place is not None and first is not None and id(first) not in decided and "x" in op.channels_of:
            rows = first.shape[op.channels_of["x"](node)]
            found[place] = min(rows, found.get(place, rows))
    return found


def _of_integers(graph: Graph) -> dict[int, int]:
    """Inputs of integers, by id: each is a copy of itself."""
    return {id(value): id(value) for value in graph.inputs if numpy_type(value.dtype).kind in "iu"}


def _decided(graph: Graph) -> set[int]:
    """Ids of the values that inputs decide."""
    found = {id(value) for value in graph.inputs}
    for node in graph.nodes:
        if any(id(value) in found for value in node.values()):
            found |= {id(value) for value in node.outputs}
    return found


def _copied(op: Op, node: Node) -> tuple[Value | None, ...]:
    """The operands of which the result may be a copy. A choice is one too: exporters write positions that may count
    from the end as the position where it is 0 or more, else the position plus the length."""
    if node.op == "select":
        return node.get("a"), node.get("b")
    return (node.get("x"),) if op.casts or op.views(node) else ()
