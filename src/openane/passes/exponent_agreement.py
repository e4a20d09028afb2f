"""Exponents of neighbours that agree: where a group of values could be held times another power of two with all the
digits that its readers see, so that fewer tensors are multiplied on the way, it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from openane.graph import Graph, Node, Value
from openane.ops import get_op
from openane.ops.exponents import Relation
from openane.ops.halves import SMALLEST_NORMAL
from openane.passes.exponent_groups import Said, variables
from openane.passes.ranges import NOTHING, Ranges
from openane.record_classes import dataclass

TASK = 2048
"""As many numbers as a task of its own counts for beside those it multiplies."""
STEP = 14
"""The largest power of two that a planar operation multiplies an operand or its result by."""
ROUNDS = 3
SMALL = 2.0 ** 4 * SMALLEST_NORMAL
"""Tensors whose root mean square is smaller lose digits where they are stored."""
FREE = {Relation.LINEAR, Relation.SCALED, Relation.AFFINE}
"""What makes a result of any exponent of operands of any."""
ANY = {Relation.NORM, Relation.SCORES}
"""What reads any exponent, and makes a result as it is."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between which exponents a group may be: from `least` on its digits are kept, up to `most` it has room."""

    least: float
    most: float


class Agreement:
    """`found` are the exponents by id of the value, `groups` the values that share one; `bounds` says which a group may
    have, None of one that has to stay."""

    def __init__(self, graph: Graph, said: Said, found: dict[int, int], groups: Iterable[Sequence[int]],
                 bounds: Callable[[Sequence[int]], Bounds | None]) -> None:
        self._said, self._found, self._groups, self._bounds = said, found, list(groups), bounds
        self._outputs = {id(value): value for value in graph.outputs}
        self._made, self._users = graph.producers(), graph.users()

    def reach(self) -> None:
        """Changes `found` until nothing is gained, or it has been tried often enough."""
        for _ in range(ROUNDS):
            if not sum(self._moved(members) for members in self._groups):
                return

    def _moved(self, members: Sequence[int]) -> bool:
        """Whether a group is given another exponent."""
        touching = self._touching(members)
        now = self._found.get(members[0], 0)
        before = self._cost(members, touching)
        bounds = self._bounds(members) if before else None
        if bounds is None:
            return False
        best = now, before
        for exponent in sorted(self._candidates(members, touching), key=abs):
            if bounds.least <= exponent <= bounds.most:
                self._found.update(dict.fromkeys(members, exponent))
                best = min(best, (exponent, self._cost(members, touching)), key=lambda each: each[1])
        self._found.update(dict.fromkeys(members, best[0]))
        return best[0] != now

    def _touching(self, members: Sequence[int]) -> list[Node]:
        """Who makes or reads the values."""
        nodes = {id(node): node for member in members for node in self._users.get(member, ())}
        makers = [self._made[member] for member in members if member in self._made]
        return list((nodes | {id(node): node for node in makers}).values())

    def _candidates(self, members: Sequence[int], touching: Sequence[Node]) -> set[int]:
        """The exponents at which one of the nodes would need no multiplication."""
        inside, found = set(members), {0}
        for node in touching:
            about = self._said.exponents[id(node)]
            if about.relation is Relation.POWERS:
                found |= {round(exponent) for exponent in self._fitting(node, about.degrees, inside)}
            else:
                found |= {self._of(value) for value in (*variables(node, about.operands), *node.outputs)
                          if id(value) not in inside}
        return found

    def _fitting(self, node: Node, degrees: Mapping[str, float], inside: set[int]) -> Iterable[float]:
        """Those at which the exponents of a product add up."""
        own = sum(degree for name, degree in degrees.items() if id(node[name]) in inside) \
            - (id(node.output) in inside)
        rest = sum(degree * self._of(node[name]) for name, degree in degrees.items() if id(node[name]) not in inside) \
            - (self._of(node.output) if id(node.output) not in inside else 0)
        return [-rest / own] if own else []

    def _of(self, value: Value) -> int:
        return self._found.get(id(value), 0)

    def _cost(self, members: Sequence[int], touching: Sequence[Node]) -> float:
        """How many numbers are multiplied, and tasks beside."""
        outputs = sum(_size(self._outputs[member]) for member in members
                      if member in self._outputs and self._found.get(member, 0))
        return outputs + sum(map(self._at, touching))

    def _at(self, node: Node) -> float:
        about = self._said.exponents[id(node)]
        made, read = node.outputs[0], variables(node, about.operands)
        if about.relation in FREE:
            return 0.0
        if about.relation in ANY:
            return _plain(self._of(made), made)
        if about.relation is Relation.SUMMED:
            return self._summed(node)
        if about.relation in (Relation.TIED, Relation.GATED):
            return sum(_plain(self._of(value) - self._of(made), value) for value in read)
        if about.relation is Relation.POWERS:
            return self._product(node, about.degrees)
        return sum(_plain(self._of(value), value) for value in (*node.outputs, *node.computed()))

    def _summed(self, node: Node) -> float:
        x, y, made = (self._of(value) for value in (node["x"], node["y"], node.output))
        near = abs(x - y) <= STEP and min(abs(x - made), abs(y - made)) <= STEP
        return 0.0 if near else _size(node.output)

    def _product(self, node: Node, degrees: Mapping[str, float]) -> float:
        handed = self._said.gated.get(id(node))
        made = self._of(node.output)
        if handed is not None and self._of(node[handed]) == made:
            return sum(_plain(self._of(node[name]), node[name]) for name in degrees if name != handed)
        total = sum(degree * self._of(node[name]) for name, degree in degrees.items())
        if abs(total - made) <= STEP and _planar(node):
            return 0.0
        return _plain(total - made, min((node.output, *(node[name] for name in degrees)),
                                        key=lambda value: value.type.elements))


def felt(graph: Graph, said: Said, ranges: Ranges) -> dict[int, float]:
    """By id of the value the root mean square beside which its errors count: its own, or that of the sums of two
    tensors that alone are made of it, which are rounded themselves."""
    users, outputs = graph.users(), set(map(id, graph.outputs))
    found: dict[int, float] = {}

    def of(value: Value) -> float:
        usual = ranges.get(id(value), NOTHING).usual
        readers = users.get(id(value), ())
        if id(value) in outputs or not readers:
            return usual
        return max(usual, min(seen_by(node, usual) for node in readers))

    def seen_by(node: Node, usual: float) -> float:
        relation = said.exponents[id(node)].relation
        if relation is Relation.SUMMED:
            return ranges.get(id(node.output), NOTHING).usual
        if relation is Relation.TIED and len(node.outputs) == 1:
            return found.get(id(node.output), usual)
        return usual

    for node in reversed(graph.nodes):
        found.update({id(value): of(value) for value in node.outputs})
    return found


def _planar(node: Node) -> bool:
    """Whether one planar operation makes it, which multiplies by a power of two as well."""
    arithmetic = get_op(node.op).arithmetic
    return arithmetic is not None and arithmetic.planar is not None and arithmetic.clamps


def _plain(exponent: float, value: Value) -> float:
    return _size(value) if exponent else 0.0


def _size(value: Value) -> float:
    return TASK + value.type.elements
