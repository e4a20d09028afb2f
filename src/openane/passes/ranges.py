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
STORED = SUM_LIMIT
"""As LIMIT, of what is no sum."""
SPREAD = 2.0 ** 12
"""How much larger the largest number of one tensor may be than that of another with the same exponent."""
LARGEST = 2.0 ** 12
"""How large the largest number of a group is made."""
LOST = 2.0 ** -10
"""Sums whose products, rounded, make a larger share of them wrong lose digits that fp16 would keep."""
COSTLY = 2.0 ** -2
"""By how much smaller numbers must be for what costs a task."""
USUAL = 4.0
"""The root mean square that sums which lose digits are given."""
SMALL = 2.0 ** 4 * SMALLEST_NORMAL
"""Tensors whose root mean square is smaller lose digits where they are stored."""


MADE = (Relation.LINEAR, Relation.SCALED, Relation.AFFINE, Relation.POWERS, Relation.RAISING, Relation.GATED)
"""Whose results can be given digits by an exponent; what others make has been rounded by then."""


FREE = {Relation.LINEAR, Relation.SCALED, Relation.AFFINE, Relation.NORM}
"""Who takes up any exponent without a task."""


@dataclass(frozen=True, slots=True)
class Range:
    """Of a tensor: the largest magnitude, the root mean square, and the largest number above 0."""

    largest: float
    usual: float
    highest: float = 0.0


def measured(graph: Graph, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[int, Range]:
    """The range of every tensor of real numbers, by id of the value, on all of `samples` (arrays by input name).
    GraphError when these do not fit."""
    found: dict[int, Range] = {}
    for sample in samples:
        for number, seen in _on(graph, sample).items():
            before = found.get(number, seen)
            found[number] = Range(max(before.largest, seen.largest), max(before.usual, seen.usual),
                                  max(before.highest, seen.highest))
    return found


def _on(graph: Graph, sample: Mapping[str, np.ndarray]) -> dict[int, Range]:
    found: dict[int, Range] = {}

    def seen(node: Node, arrays: Mapping[int, np.ndarray]) -> None:
        found.update({id(value): of_array(arrays[id(value)]) for value in node.outputs
                      if arrays[id(value)].dtype.kind == "f"})

    evaluate(graph, sample, seen)
    given = {id(value): np.asarray(sample[value.name]) for value in graph.inputs}
    return found | {number: of_array(array) for number, array in given.items() if array.dtype.kind == "f"}


def of_array(array: np.ndarray) -> Range:
    """The range of an array; infinities and NaN are left out."""
    if not array.size:
        return Range(0.0, 0.0)
    flat = np.ravel(array)
    highest, largest = float(flat.max()), float(max(flat.max(), -flat.min()))
    if not math.isfinite(largest):
        flat = flat[np.isfinite(flat)]
        highest, largest = float(flat.max(initial=0.0)), float(np.abs(flat).max(initial=0.0))
    if not largest:
        return Range(0.0, 0.0)
    flat = (flat / np.asarray(largest, flat.dtype)).astype(np.float32, copy=False)  # no square leaves fp32
    return Range(largest, largest * math.sqrt(float(np.dot(flat, flat)) / flat.size), max(highest, 0.0))


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


@dataclass(frozen=True, slots=True)
class Chosen:
    """The exponent of every value that is to be multiplied by a power of two, by id of the value; and of every value
    that is a sum with constant weights, the one its sums have beside that, which the same task takes back (its post
    scale). 0 is left out."""

    values: Mapping[int, int]
    sums: Mapping[int, int]


def chosen(graph: Graph, said: Said, ranges: Mapping[int, Range]) -> Chosen:
    """The exponents that numbers of these ranges need."""
    groups = Groups(ranges)
    sums: dict[int, int] = {}  # how many products each result is a sum of; 0 where it is made of others, but of no sum
    for node in graph.nodes:
        about = said.exponents[id(node)]
        names = (said.gated[id(node)],) if id(node) in said.gated else \
            about.operands if about.relation in (Relation.TIED, Relation.GATED) else ()
        if names:
            groups.tie(node.outputs[0], [*node.outputs[1:], *variables(node, names)])
        if about.relation in MADE:
            count = 1 if about.relation is Relation.AFFINE else products(node)
            sums.update({id(value): count for value in node.outputs})
    borders = _Borders(graph, said)
    found: dict[int, int] = {}
    for members in groups.members([value for node in graph.nodes for value in node.outputs]):
        known = [member for member in members if member in ranges and ranges[member].usual]
        exponent = _exponent(known, sums, ranges, borders.of(members)) if known else 0
        if exponent:
            found.update(dict.fromkeys(members, exponent))
    inner = {id(node.output): _inner(ranges[id(node.output)], found.get(id(node.output), 0), sums[id(node.output)])
             for node in graph.nodes if said.exponents[id(node)].relation is Relation.LINEAR}
    return Chosen(found, {number: exponent for number, exponent in inner.items() if exponent})


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


@dataclass(frozen=True, slots=True)
class Border:
    """Of a group: whether a multiplication is needed somewhere to give it an exponent, which of it are sums with
    constant weights, and whether nothing but the scores of a softmax are read of it, of which what is far below the
    largest is nothing."""

    costs: bool
    linear: frozenset[int]
    scores: bool


class _Borders:
    """Who makes and reads each value, for the borders of groups."""

    def __init__(self, graph: Graph, said: Said) -> None:
        self._said = said
        self._users, self._made = graph.users(), graph.producers()
        self._outputs = set(map(id, graph.outputs))

    def of(self, members: Sequence[int]) -> Border:
        """The border of a group."""
        inside = set(members)
        readers = [self._relation(node) for member in members for node in self._users.get(member, ())
                   if not inside.issuperset(map(id, node.outputs))]
        made = {member: self._relation(self._made[member]) for member in members if member in self._made}
        ports = any(member in self._outputs or member not in self._made for member in members)
        costs = ports or not set(readers) <= FREE or not set(made.values()) <= {*FREE, Relation.TIED}
        linear = frozenset(member for member, relation in made.items() if relation is Relation.LINEAR)
        return Border(costs, linear, set(readers) == {Relation.SCORES} and not ports)

    def _relation(self, node: Node) -> Relation:
        return self._said.exponents[id(node)].relation


def _exponent(members: Sequence[int], sums: Mapping[int, int], ranges: Mapping[int, Range], border: Border) -> int:
    """The exponent of a group: below 0 where its largest number is too large, above where its sums, or what is stored
    of it, are too small. Where it costs a task, sums with constant weights get theirs by themselves."""
    counts = {member: sums[member] if not (border.costs and member in border.linear) else 0
              for member in members if member in sums}
    largest = max(ranges[member].highest if border.scores else ranges[member].largest for member in members)
    room = math.floor(math.log2(LARGEST / largest)) if largest > 0 else 0
    if largest > (LIMIT if any(counts.values()) else STORED):
        return room
    share = COSTLY if border.costs else 1.0
    wanted = [math.log2(USUAL / ranges[member].usual) for member, count in counts.items()
              if ranges[member].usual < share * max(SMALL, least(count))]
    return max(0, min(room, round(max(wanted)))) if wanted else 0


def _inner(seen: Range, exponent: int, count: int) -> int:
    """The exponent of sums of so many products beside that of their result."""
    largest, usual = seen.largest * 2.0 ** exponent, seen.usual * 2.0 ** exponent
    if not usual or (largest <= LIMIT and usual >= least(count)):
        return 0
    room = math.floor(math.log2(LARGEST / largest))
    return room if largest > LIMIT else max(0, min(room, round(math.log2(USUAL / usual))))


def least(count: int) -> float:
    """The root mean square from which on sums of so many products lose no digits that fp16 would keep: each product is
    rounded by up to half a quantum, evenly spread."""
    return QUANTUM * math.sqrt(count / 12) / LOST


class Groups:
    """Values that have one exponent, by id. Those whose largest numbers are too far apart for that stay apart."""

    def __init__(self, ranges: Mapping[int, Range]) -> None:
        self._ranges = ranges
        self._parents: dict[int, int] = {}
        self._spreads: dict[int, tuple[float, float]] = {}

    def tie(self, first: Value, others: Iterable[Value]) -> None:
        """One group of the values, and of all they are tied to."""
        self._parents.setdefault(id(first), id(first))
        for other in others:
            one, two = self._root(id(first)), self._root(id(other))
            least, most = self._spread(one), self._spread(two)
            low, high = min(least[0], most[0]), max(least[1], most[1])
            if one != two and high < SPREAD * low:
                self._parents[two] = one
                self._spreads[one] = low, high

    def members(self, values: Iterable[Value]) -> Iterable[list[int]]:
        """The groups of the values and of what they are tied to."""
        found: dict[int, list[int]] = {}
        for number in dict.fromkeys([*map(id, values), *self._parents]):
            found.setdefault(self._root(number), []).append(number)
        return found.values()

    def _spread(self, root: int) -> tuple[float, float]:
        """The smallest and the largest of the largest numbers of a group; what is 0 has any exponent."""
        largest = self._ranges[root].largest if root in self._ranges else 0.0
        return self._spreads.get(root) or ((largest, largest) if largest else (math.inf, 0.0))

    def _root(self, number: int) -> int:
        while (parent := self._parents.get(number, number)) != number:
            self._parents[number] = self._parents.get(parent, parent)
            number = parent
        return number
