"""Which power of two every tensor of a graph is to be multiplied by, so that the engine holds it and sums it well.

The engine's sums of products are infinite from 2^15 on, fp16 ends at 65504, and products are rounded to multiples of
2^-16 before they are added (chips.arithmetic). Numbers are measured: a graph is evaluated in fp32 on samples. Tensors
that must have the same exponent form a group, from one operation that is not indifferent to exponents to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openane.chips.arithmetic import QUANTUM, SUM_LIMIT
from openane.graph import Graph, Node, Value
from openane.ops.evaluate import evaluate
from openane.ops.exponents import Relation, exponents

LIMIT = SUM_LIMIT / 4
"""What is measured to be larger is made smaller: samples show some of what a model meets."""
LARGEST = 2.0 ** 12
"""How large the largest number of a group is made."""
SMALL = 2.0 ** 11 * QUANTUM
"""Sums whose root mean square is smaller lose digits that fp16 would keep."""
USUAL = 4.0
"""The root mean square that sums which lose digits are given."""


@dataclass(frozen=True, slots=True)
class Range:
    """Of a tensor: the largest magnitude, and the root mean square."""

    largest: float
    usual: float


def measured(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[int, Range]:
    """The range of every tensor of real numbers, by id of the value, on all of `samples` (arrays by input name).
    GraphError when these do not fit."""
    found: dict[int, Range] = {}
    for sample in samples:
        for number, seen in _on(graph, sample).items():
            before = found.get(number, seen)
            found[number] = Range(max(before.largest, seen.largest), max(before.usual, seen.usual))
    return found


def _on(graph: Graph, sample: Mapping[str, np.ndarray]) -> dict[int, Range]:
    found: dict[int, Range] = {}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
        found.update({id(value): of_array(arrays[id(value)]) for value in node.outputs
                      if arrays[id(value)].dtype.kind == "f"})

    evaluate(graph, sample, seen)
    return found | {id(value): of_array(np.asarray(sample[value.name])) for value in graph.inputs}


def of_array(array: np.ndarray) -> Range:
    """The range of an array; infinities and NaN are left out."""
    size = np.abs(array[np.isfinite(array)].astype(np.float64)) if array.size else np.zeros(0)
    return Range(float(size.max()), float(np.sqrt(np.mean(size ** 2)))) if size.size else Range(0.0, 0.0)


def chosen(graph: Graph, ranges: Mapping[int, Range]) -> dict[int, int]:
    """The exponent of every value that is to be multiplied by a power of two, by id of the value; 0 is left out."""
    groups = _Groups()
    sums: set[int] = set()
    made = {id(value): node for node in graph.nodes for value in node.outputs}
    for node in graph.nodes:
        said = exponents(node)
        if said.relation in (Relation.TIED, Relation.GATED):
            groups.tie([*variables(node, said.operands), *node.outputs])
        elif said.relation is Relation.PRODUCT and (gated := other_than_gate(node, made)) is not None:
            groups.tie([node[gated], *node.outputs])
        elif said.relation is Relation.LINEAR:
            sums.update(map(id, node.outputs))
    found: dict[int, int] = {}
    for members in groups.members([value for node in graph.nodes for value in node.outputs]):
        exponent = _exponent(members, sums, ranges)
        if exponent:
            found.update(dict.fromkeys(members, exponent))
    return found


def other_than_gate(node: Node, made: Mapping[int, Node]) -> str | None:
    """Of a product of two computed tensors the operand that hands its exponent on: the other one is a gate, smaller or
    from an operation that exponents do not pass. None where neither is."""
    for gate, other in (("y", "x"), ("x", "y")):
        producer = made.get(id(node[gate]))
        if node[gate].type.elements < node[other].type.elements or (
                producer is not None and exponents(producer).relation is Relation.FIXED):
            return other
    return None


def variables(node: Node, names: Iterable[str]) -> list[Value]:
    """The operands of these names that are not constants."""
    operands = [node.operands.get(name) for name in names]
    flat = [value for each in operands for value in (each if isinstance(each, tuple) else (each,))]
    return [value for value in flat if isinstance(value, Value) and not value.constant]


def _exponent(members: Iterable[int], sums: set[int], ranges: Mapping[int, Range]) -> int:
    """The exponent of a group: below 0 where its largest number is too large, above where its sums are too small."""
    known = [ranges[member] for member in members if member in ranges]
    largest = max((each.largest for each in known), default=0.0)
    room = math.floor(math.log2(LARGEST / largest)) if largest else 0
    if largest > LIMIT:
        return room
    small = min((ranges[member].usual for member in members if member in sums and member in ranges
                 and ranges[member].usual), default=SMALL)
    return max(0, min(room, round(math.log2(USUAL / small)))) if small < SMALL else 0


class _Groups:
    """Values that must have one exponent, by id."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}

    def tie(self, values: Iterable[Value]) -> None:
        """One group of the values, and of all they are tied to."""
        first, *others = map(id, values)
        for other in others:
            self._parents[self._root(other)] = self._root(first)

    def members(self, values: Iterable[Value]) -> Iterable[list[int]]:
        """The groups of the values and of what they are tied to."""
        found: dict[int, list[int]] = {}
        for number in dict.fromkeys([*map(id, values), *self._parents]):
            found.setdefault(self._root(number), []).append(number)
        return found.values()

    def _root(self, number: int) -> int:
        while (parent := self._parents.get(number, number)) != number:
            number = parent
        return number
