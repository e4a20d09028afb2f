"""Which tensors of a graph must be held times the same power of two, and what borders such a group has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.exponents import FIXED, Exponents, Relation, exponents, most_products, products
from openane.passes.norm_exponents import beside_epsilon
from openane.passes.ranges import NOTHING, Ranges
from openane.record_classes import dataclass

SPREAD = 2.0 ** 12
"""How much larger the largest number of one tensor may be than that of another with the same exponent."""
GATED = 2.0 ** 5
"""As SPREAD, of a product with a gate and what it leaves less, or makes more, of: where the larger one has room, sums
and pools of the smaller have digits."""
FREE = {Relation.LINEAR, Relation.SCALED, Relation.AFFINE, Relation.SUMMED, Relation.NORM}
"""Who takes up any exponent without a task."""
RELIEVED = {*FREE, Relation.POWERS, Relation.SCORES, Relation.LOWERING}
"""Who reads numbers that are held times a power of two as that."""


class ProductCounts(dict[int, int]):
    """How many products each result of a node sums, by the id of the node: weights are looked at when that is asked
    for, since most graphs are far from where zeros among them count."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._nodes = {id(node): node for node in graph.nodes}

    def __missing__(self, number: int) -> int:
        self[number] = products(self._nodes[number])
        return self[number]


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of every node of a graph, by its id; how many products each of its results sums, which is counted
    when somebody asks, and how many they are at most; by the id of a node that multiplies the operand that hands its
    exponent on, the other one being a gate; and by id the values of which nothing but the scores of a softmax are
    read."""

    exponents: Mapping[int, Exponents]
    products: Mapping[int, int]
    most: Mapping[int, int]
    gated: Mapping[int, str]
    scores: frozenset[int] = frozenset()


def said_of(graph: Graph) -> Said:
    """What exponents do to each node."""
    found, made = {id(node): exponents(node) for node in graph.nodes}, graph.producers()
    found |= {id(gate): FIXED for node in graph.nodes for gate in _bounded_gates(node, found, made)}
    said = Said(found, ProductCounts(graph), {id(node): most_products(node) for node in graph.nodes}, {})
    gated = {id(node): name for node in graph.nodes if (name := _other_than_gate(node, said, made)) is not None}
    return replace(said, gated=gated, scores=_scores_of(graph, said))


def _scores_of(graph: Graph, said: Said) -> frozenset[int]:
    """The values that only softmax reads, and what only hands numbers on to it."""
    found, others = set[int](), set(map(id, graph.outputs))
    if not any(about.relation is Relation.SCORES for about in said.exponents.values()):
        return frozenset()
    for node in reversed(graph.nodes):
        about, made = said.exponents[id(node)], set(map(id, node.outputs))
        read = {id(value) for value in node.values()}
        handed = about.relation is Relation.TIED and made <= found - others
        passes = variables(node, about.operands) if about.relation is Relation.SCORES or handed else []
        found |= set(map(id, passes))
        others |= read - set(map(id, passes))
    return frozenset(found - others)


def read_by_logarithms(graph: Graph, said: Said) -> frozenset[int]:
    """The values, by id, that logarithms are taken of."""
    return frozenset(id(node["x"]) for node in graph.nodes if said.exponents[id(node)].relation is Relation.LOWERING)


def _other_than_gate(node: Node, said: Said, made: Mapping[int, Node]) -> str | None:
    """Of a product of two computed tensors the operand that hands its exponent on: the other one is a gate, smaller or
    from an operation that exponents do not pass. None where neither is."""
    known = said.exponents
    about = known[id(node)]
    if not about.multiplies_two:
        return None
    first, second = about.operands
    for gate, other in ((second, first), (first, second)):
        producer = _computed_by(node[gate], known, made)
        elsewhere = producer is not None and known[id(producer)].relation in (Relation.FIXED, Relation.SCORES)
        if elsewhere or (not said.most[id(node)] and node[gate].type.elements < node[other].type.elements):
            return other
    return None


def _computed_by(value: Value, known: Mapping[int, Exponents], made: Mapping[int, Node]) -> Node | None:
    """What makes a value, but for what hands numbers on."""
    producer = made.get(id(value))
    while producer is not None and known[id(producer)].relation is Relation.TIED and "x" in producer.operands \
            and known[id(producer)].operands == ("x",):
        producer = made.get(id(producer["x"]))
    return producer


def _bounded_gates(node: Node, known: Mapping[int, Exponents], made: Mapping[int, Node]) -> list[Node]:
    """Of a product of two computed tensors the functions that bound one of them: what such a gate leaves of the other
    has the exponent of that, and the gate none."""
    about = known[id(node)]
    if not about.multiplies_two:
        return []
    makers = [_computed_by(node[name], known, made) for name in about.operands]
    return [maker for maker in makers if maker is not None and get_op(maker.op).unary is not None
            and len(known[id(maker)].operands) > 1]


def variables(node: Node, names: Iterable[str]) -> list[Value]:
    """The operands of these names that are not constants."""
    operands = [node.operands.get(name) for name in names]
    flat = [value for each in operands for value in (each if isinstance(each, tuple) else (each,))]
    return [value for value in flat if isinstance(value, Value) and not value.constant]


def groups_of(graph: Graph, said: Said, ranges: Ranges) -> list[list[int]]:
    """The values, by id, that have one exponent."""
    groups = _Groups(ranges, said.scores)
    for node in graph.nodes:
        about = said.exponents[id(node)]
        if id(node) in said.gated:
            groups.tie(node.output, variables(node, (said.gated[id(node)],)), GATED)
        elif about.relation in (Relation.TIED, Relation.GATED):
            groups.tie(node.outputs[0], [*node.outputs[1:], *variables(node, about.operands)])
    return list(groups.members([value for node in graph.nodes for value in node.outputs]))


@dataclass(frozen=True, slots=True)
class Border:
    """Of a group: whether a multiplication is needed somewhere to give it an exponent; which of it are sums with
    constant weights; whether nothing but the scores of a softmax are read of it, of which what is far below the largest
    is nothing; whether nothing but logarithms are taken of it; whether anything reads it times a power of two; whether
    it is joined with values too far from its own to share an exponent; what of it is read as it is; and how large it
    must usually be for the epsilons of norms that read it to have digits enough beside its square."""

    costs: bool
    linear: frozenset[int]
    scores: bool
    logarithms: bool
    relieves: bool
    joined: bool
    plain: frozenset[int]
    norms: float = 0.0


class Borders:
    """Who makes and reads each value, for the borders of groups."""

    def __init__(self, graph: Graph, said: Said) -> None:
        self._said = said
        self._users, self._made = graph.users(), graph.producers()
        self._outputs = set(map(id, graph.outputs))
        self._norms = {id(node["x"]): beside_epsilon(node) for node in graph.nodes
                       if self._relation(node) is Relation.NORM}
        close = graph.metadata.get(FUNCTIONS) == CLOSE  # else a function is one table, with an exponent three tasks
        self._free = {*FREE, Relation.TIED, *((Relation.GATED,) if close else ())}

    def of(self, members: Sequence[int]) -> Border:
        """The border of a group."""
        inside = set(members)
        readers = {member: self._readers(member, inside) for member in members}
        every = set().union(*readers.values())
        made = {member: self._making(self._made[member], inside) for member in members if member in self._made}
        ports = self._outputs.intersection(members)
        free = len(made) == len(members) and every <= FREE and self._free.issuperset(made.values())
        plain = {member for member, relations in readers.items() if not RELIEVED.issuperset(relations)}
        return Border(bool(ports) or not free,
                      frozenset(member for member, relation in made.items() if relation is Relation.LINEAR),
                      every == {Relation.SCORES} and not ports, every == {Relation.LOWERING} and not ports,
                      bool(every & RELIEVED),
                      Relation.TIED in every, frozenset(plain | ports),
                      self._beside_epsilons(members))

    def _making(self, node: Node, inside: set[int]) -> Relation:
        """How a value of the group is made: a product with a gate, element by element, hands the exponent on that its
        other operand has."""
        handed = None if self._said.most[id(node)] else self._said.gated.get(id(node))
        return Relation.TIED if handed is not None and id(node[handed]) in inside else self._relation(node)

    def _beside_epsilons(self, members: Iterable[int]) -> float:
        return max((self._norms.get(member, 0.0) for member in members), default=0.0)

    def _readers(self, member: int, inside: set[int]) -> list[Relation]:
        """How a value is read outside of its group."""
        return [self._relation(node) for node in self._users.get(member, ())
                if not inside.issuperset(map(id, node.outputs))]

    def _relation(self, node: Node) -> Relation:
        return self._said.exponents[id(node)].relation


class _Groups:
    """Values that have one exponent, by id. Those whose largest numbers are too far apart for that stay apart; of
    scores the largest below 0 are none."""

    def __init__(self, ranges: Ranges, scores: frozenset[int]) -> None:
        self._ranges, self._scores = ranges, scores
        self._parents: dict[int, int] = {}
        self._spreads: dict[int, tuple[float, float]] = {}

    def tie(self, first: Value, others: Iterable[Value], most: float = SPREAD) -> None:
        """One group of the values, and of all they are tied to, whose largest numbers are then less than `most` times
        apart, or no further than they are in one of the two."""
        self._parents.setdefault(id(first), id(first))
        for other in others:
            one, two = self._root(id(first)), self._root(id(other))
            known = self._spread(one), self._spread(two)
            low, high = min(each[0] for each in known), max(each[1] for each in known)
            apart = max((each[1] / each[0] for each in known if each[1]), default=1.0)
            if one != two and (high < most * low or high <= apart * low):
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
        seen = self._ranges.get(root, NOTHING)
        largest = seen.highest if root in self._scores else seen.largest
        return self._spreads.get(root) or ((largest, largest) if largest else (math.inf, 0.0))

    def _root(self, number: int) -> int:
        while (parent := self._parents.get(number, number)) != number:
            self._parents[number] = self._parents.get(parent, parent)
            number = parent
        return number
