"""Which power of two every tensor of a graph is to be multiplied by, so that the engine holds it and sums it well.

The engine's sums of products are infinite from 2^15 on, fp16 ends at 65504 and keeps all digits from 2^-14 on, and
products are rounded to multiples of 2^-16 before they are added (chips.arithmetic). Numbers are measured: a graph is
evaluated in fp32 on samples. Tensors that must have the same exponent form a group, from one operation that is not
indifferent to exponents to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openane.chips.arithmetic import QUANTUM, SUM_LIMIT
from openane.graph import Graph, Node, Value
from openane.ops.evaluate import evaluate
from openane.ops.exponents import Exponents, Relation, exponents, products
from openane.ops.halves import SMALLEST_NORMAL

LIMIT = SUM_LIMIT / 4
"""What is measured to be larger is made smaller: samples show some of what a model meets."""
LARGEST = 2.0 ** 12
"""How large the largest number of a group is made."""
LOST = 2.0 ** -10
"""Sums whose products, rounded, make a larger share of them wrong lose digits that fp16 would keep."""
USUAL = 4.0
"""The root mean square that sums which lose digits are given."""
SMALL = 2.0 ** 4 * SMALLEST_NORMAL
"""Tensors whose root mean square is smaller lose digits where they are stored."""


MADE = (Relation.LINEAR, Relation.SCALED, Relation.AFFINE, Relation.POWERS, Relation.RAISING, Relation.GATED)
"""Whose results can be given digits by an exponent; what others make has been rounded by then."""


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
    if not array.size:
        return Range(0.0, 0.0)
    flat = np.ravel(array)
    largest = float(max(flat.max(), -flat.min()))
    if not math.isfinite(largest):
        flat = flat[np.isfinite(flat)]
        largest = float(np.abs(flat).max(initial=0.0))
    if not largest:
        return Range(0.0, 0.0)
    flat = (flat / np.asarray(largest, flat.dtype)).astype(np.float32, copy=False)  # no square leaves fp32
    return Range(largest, largest * math.sqrt(float(np.dot(flat, flat)) / flat.size))


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of every node of a graph, by its id; and by the id of a node that multiplies the operand that hands
    its exponent on, the other one being a gate."""

    exponents: Mapping[int, Exponents]
    gated: Mapping[int, str]


def said_of(graph: Graph) -> Said:
    """What exponents do to each node."""
    found = {id(node): exponents(node) for node in graph.nodes}
    made = graph.producers()
    gated = {id(node): name for node in graph.nodes if (name := _other_than_gate(node, found, made)) is not None}
    return Said(found, gated)


def chosen(graph: Graph, said: Said, ranges: Mapping[int, Range]) -> dict[int, int]:
    """The exponent of every value that is to be multiplied by a power of two, by id of the value; 0 is left out."""
    groups = _Groups()
    sums: dict[int, int] = {}  # how many products each result is a sum of; 0 where it is made of others, but of no sum
    for node in graph.nodes:
        about = said.exponents[id(node)]
        if about.relation in (Relation.TIED, Relation.GATED):
            groups.tie([*variables(node, about.operands), *node.outputs])
        elif id(node) in said.gated:
            groups.tie([node[said.gated[id(node)]], *node.outputs])
        if about.relation in MADE:
            count = 1 if about.relation is Relation.AFFINE else products(node)
            sums.update({id(value): count for value in node.outputs})
    found: dict[int, int] = {}
    for members in groups.members([value for node in graph.nodes for value in node.outputs]):
        exponent = _exponent(members, sums, ranges)
        if exponent:
            found.update(dict.fromkeys(members, exponent))
    return found


def _other_than_gate(node: Node, said: Mapping[int, Exponents], made: Mapping[int, Node]) -> str | None:
    """Of a product of two computed tensors the operand that hands its exponent on: the other one is a gate, smaller or
    from an operation that exponents do not pass. None where neither is."""
    about = said[id(node)]
    if about.relation is not Relation.POWERS or sorted(about.degrees.values()) != [1.0, 1.0]:
        return None
    first, second = about.operands
    for gate, other in ((second, first), (first, second)):
        producer = made.get(id(node[gate]))
        while producer is not None and said[id(producer)].relation is Relation.TIED and "x" in producer.operands \
                and said[id(producer)].operands == ("x",):
            producer = made.get(id(producer["x"]))
        elsewhere = producer is not None and said[id(producer)].relation in (Relation.FIXED, Relation.SCORES)
        if elsewhere or (not products(node) and node[gate].type.elements < node[other].type.elements):
            return other
    return None


def variables(node: Node, names: Iterable[str]) -> list[Value]:
    """The operands of these names that are not constants."""
    operands = [node.operands.get(name) for name in names]
    flat = [value for each in operands for value in (each if isinstance(each, tuple) else (each,))]
    return [value for value in flat if isinstance(value, Value) and not value.constant]


def _exponent(members: Iterable[int], sums: Mapping[int, int], ranges: Mapping[int, Range]) -> int:
    """The exponent of a group: below 0 where its largest number is too large, above where its sums, or what is stored
    of it, are too small."""
    members = [member for member in members if member in ranges and ranges[member].usual]
    largest = max((ranges[member].largest for member in members), default=0.0)
    room = math.floor(math.log2(LARGEST / largest)) if largest else 0
    if largest > (LIMIT if any(sums.get(member) for member in members) else 2 * LIMIT):
        return room
    wanted = [math.log2(USUAL / ranges[member].usual) for member in members
              if member in sums and ranges[member].usual < max(SMALL, least(sums[member]))]
    return max(0, min(room, round(max(wanted)))) if wanted else 0


def least(count: int) -> float:
    """The root mean square from which on sums of so many products lose no digits that fp16 would keep: each product is
    rounded by up to half a quantum, evenly spread."""
    return QUANTUM * math.sqrt(count / 12) / LOST


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
            self._parents[number] = self._parents.get(parent, parent)
            number = parent
        return number
