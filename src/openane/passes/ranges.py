"""What range the tensors of a graph have: measured where it is evaluated in fp32 on samples."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.evaluate import evaluate
from openane.ops.half_bits import from_half
from openane.ops.spec import Movement
from openane.record_classes import dataclass

SQUARED = 2.0 ** -40, 2.0 ** 40
"""Between these the sum of squares of a tensor stays in fp32."""
MANY = 1 << 20
"""More numbers than these are looked at a part at a time."""
PART = 1 << 17
"""How many numbers such a part has: they are read three times, and stay in the processor's cache."""
REARRANGING = Movement.SHAPE, Movement.DIMENSIONS
"""Whose result has the numbers of x, each once."""
Ranges = Mapping[int, "Range"]
"""By id of the value."""


@dataclass(frozen=True, slots=True)
class Range:
    """Of a tensor: the largest magnitude, the root mean square, and the largest numbers above 0 and below it, the
    latter without its sign; the smallest magnitude that is not 0, or 0 where nobody asked for it."""

    largest: float
    usual: float
    highest: float = 0.0
    lowest: float = 0.0
    smallest: float = 0.0


NOTHING = Range(0.0, 0.0)
"""The range of what is not known."""


def measured(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]],
             smallest: Collection[int] = ()) -> dict[int, Range]:
    """The range of every tensor of real numbers, by id of the value, on all of `samples` (arrays by input name); with
    the smallest number of those that `smallest` has the ids of. GraphError when samples do not fit."""
    found: dict[int, Range] = {}
    for sample in samples:
        for number, seen in _on(graph, sample, smallest).items():
            before = found.get(number, seen)
            found[number] = Range(max(before.largest, seen.largest), max(before.usual, seen.usual),
                                  max(before.highest, seen.highest), max(before.lowest, seen.lowest),
                                  min(before.smallest or seen.smallest, seen.smallest or before.smallest))
    return found


def _on(graph: Graph, sample: Mapping[str, np.ndarray], smallest: Collection[int]) -> dict[int, Range]:
    given = {id(value): np.asarray(sample[value.name]) for value in graph.inputs if value.name in sample}
    found = {number: of_array(array) for number, array in given.items() if array.dtype.kind == "f"}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
        known = found.get(id(node.get("x"))) if get_op(node.op).moves in REARRANGING else None
        found.update({id(value): known or of_array(arrays[id(value)]) for value in node.outputs
                      if arrays[id(value)].dtype.kind == "f"})
        found.update({id(value): replace(found[id(value)], smallest=_smallest(arrays[id(value)]))
                      for value in node.outputs if id(value) in smallest and id(value) in found})

    evaluate(graph, sample, seen, spend=True)
    return found


def _smallest(array: np.ndarray) -> float:
    sizes = np.abs(array)
    found = float(sizes.min(initial=np.inf, where=sizes > 0))
    return found if math.isfinite(found) else 0.0


def of_array(array: np.ndarray) -> Range:
    """The range of an array; infinities and NaN are left out."""
    if not array.size:
        return Range(0.0, 0.0)
    flat = from_half(np.ravel(array))
    if flat.size > MANY and (found := _in_parts(flat)) is not None:
        return found
    highest, lowest = float(np.maximum.reduce(flat)), -float(np.minimum.reduce(flat))
    if not (math.isfinite(highest) and math.isfinite(lowest)):
        flat = flat[np.isfinite(flat)]
        highest, lowest = float(flat.max(initial=0.0)), -float(flat.min(initial=0.0))
    largest = max(highest, lowest)
    if not largest:
        return Range(0.0, 0.0)
    unit = 1.0
    if flat.dtype != np.float32 or not SQUARED[0] < largest < SQUARED[1]:
        flat, unit = (flat / np.asarray(largest, flat.dtype)).astype(np.float32, copy=False), largest
    return Range(largest, unit * math.sqrt(float(np.dot(flat, flat)) / flat.size), max(highest, 0.0),
                 max(lowest, 0.0))


def _in_parts(flat: np.ndarray) -> Range | None:
    """The range of many numbers [n], a part at a time; None of those that float32 does not sum the squares of."""
    if flat.dtype != np.float32:
        return None
    parts = [flat[start:start + PART] for start in range(0, flat.size, PART)]
    with np.errstate(over="ignore", invalid="ignore"):
        seen = np.array([(part.max(), -part.min(), np.dot(part, part)) for part in parts], np.float64)
    highest, lowest = float(seen[:, 0].max()), float(seen[:, 1].max())
    largest = max(highest, lowest)
    if not (math.isfinite(highest + lowest) and SQUARED[0] < largest < SQUARED[1]):
        return None
    return Range(largest, math.sqrt(float(seen[:, 2].sum()) / flat.size), max(highest, 0.0), max(lowest, 0.0))
