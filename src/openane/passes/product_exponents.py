"""The exponents that operands of products of powers may be given, and how far their results spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from openane.graph import Graph
from openane.ops.exponents import Relation
from openane.passes.exponent_groups import Said

Way = Mapping[str, int]
"""An exponent for each operand, by its name."""


def exponents_of(degrees: Mapping[str, float], wanted: int, held: Mapping[str, Iterable[int]],
                 usual: Callable[[str], int]) -> list[Way]:
    """Exponents that operands may be given, where the result is to have `wanted`: those they are `held` at, 0, and what
    makes up for the other's, be that the one that makes its numbers `usual`; of a root the next even ones."""
    choices = {name: {*held[name], 0} for name in degrees}
    first, *rest = degrees
    if not rest:
        choices[first].add(math.trunc(wanted / degrees[first]))
        choices[first] |= {exponent - 1 for exponent in choices[first] if not _whole(degrees, {first: exponent})}
        return [{first: exponent} for exponent in choices[first] if (exponent * degrees[first]).is_integer()]
    second, = rest
    ways = [{first: one, second: other} for one in choices[first] for other in choices[second]]
    for one, other in ((first, second), (second, first)):
        for exponent in (*choices[one], usual(one)):
            ways.append({one: exponent, other: round((wanted - exponent * degrees[one]) / degrees[other])})
    return [way for way in ways if _whole(degrees, way)]


def total(degrees: Mapping[str, float], way: Way) -> int:
    """The exponent of the product of operands at these."""
    return round(sum(degrees[name] * exponent for name, exponent in way.items()))


def spread(graph: Graph, said: Said) -> Mapping[int, int]:
    """By which power of two more than others' the numbers of products of many may be larger than those measured, by
    id: each factor beyond two may be twice as large. Of 48 normal numbers a product is in one run of ten a thousand
    times as large as in another."""
    factors: dict[int, int] = {}
    for node in graph.nodes:
        about = said.exponents[id(node)]
        found = 1
        if about.relation is Relation.POWERS:
            found = int(sum(abs(degree) * factors.get(id(node[name]), 1) for name, degree in about.degrees.items()))
        elif about.relation is Relation.TIED:
            found = max((factors.get(id(value), 1) for value in node.values()), default=1)
        if found > 1:
            factors |= dict.fromkeys(map(id, node.outputs), found)
    return {number: found - 2 for number, found in factors.items() if found > 2}


def _whole(degrees: Mapping[str, float], way: Way) -> bool:
    return float(sum(degrees[name] * exponent for name, exponent in way.items())).is_integer()
