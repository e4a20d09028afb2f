"""Which power of two every tensor of a graph is to be multiplied by, so that the engine holds it and sums it well.

The engine's sums of products are infinite from 2^15 on, fp16 ends at 65504 and keeps all digits from 2^-14 on, and
products are rounded to multiples of 2^-16 before they are added (chips.arithmetic).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from openane.chips.arithmetic import QUANTUM, SUM_LIMIT
from openane.graph import Graph, Node
from openane.ops import get_op
from openane.ops.exponents import Relation, factors
from openane.ops.halves import LARGEST as LARGEST_HALF
from openane.ops.halves import SMALLEST_NORMAL, below_zero, largest_magnitude
from openane.passes.exponent_agreement import Agreement, Bounds, felt
from openane.passes.exponent_groups import Border, Borders, Said, groups_of
from openane.passes.joined_errors import JoinedErrors
from openane.passes.norm_exponents import beside_epsilon
from openane.passes.product_exponents import spread
from openane.passes.ranges import Range, Ranges
from openane.passes.weight_room import biased, share
from openane.record_classes import dataclass

LIMIT = SUM_LIMIT / 4
"""Sums that are measured to be larger are made smaller: samples show some of what a model meets."""
STORED = SUM_LIMIT
"""As LIMIT, of what is no sum."""
LARGEST = 2.0 ** 12
"""How large the largest number of a group is made."""
LOST = 2.0 ** -12
"""Sums whose products, rounded, make a larger share of them wrong lose digits that fp16 would keep: what is rounded to
fp16 errs by as much, root mean square."""
COSTLY = 2.0 ** -1
"""By how much smaller numbers must be for what costs a task."""
USUAL = 1.0
"""The root mean square that what loses digits is given."""
MOST = 128
"""By which power of two no number needs to be raised: what is smaller has no digits in fp32 either."""
MOST_OWN = 14
"""The power of two that the post scale of one task takes back of its sums. What is rounded then is less than a 50th of
the smallest fp16 number."""
RAISED = 2.0 ** 6
"""How large the largest number may be made where small ones are raised: inputs may be larger than those measured."""
SMALL = 2.0 ** 4 * SMALLEST_NORMAL
"""Tensors whose root mean square is smaller lose digits where they are stored."""
MADE = (Relation.LINEAR, Relation.SCALED, Relation.AFFINE, Relation.SUMMED, Relation.POWERS, Relation.RAISING,
        Relation.GATED, Relation.NORM)
"""Whose results can be given digits by an exponent; what others make has been rounded by then."""
WEIGHTED = (Relation.LINEAR, Relation.SCALED)
"""What may be one sum with constant weights, after another."""

Bordered = tuple[Sequence[int], Border]
"""A group of values, by id, and its border."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The exponent of every value that is to be multiplied by a power of two, by id of the value; and of every value
    that is a sum with constant weights, the one its sums have beside that, which the same task takes back (its post
    scale). 0 is left out."""

    values: Mapping[int, int]
    sums: Mapping[int, int]


def bordered(graph: Graph, said: Said, ranges: Ranges) -> list[Bordered]:
    """The groups of values that have one exponent, and their borders: the same for ranges that are so many times as
    large."""
    borders = Borders(graph, said)
    return [(members, borders.of(members)) for members in groups_of(graph, said, ranges)]


def chosen(graph: Graph, said: Said, ranges: Ranges, together: Sequence[Bordered] | None = None) -> Chosen:
    """The exponents that numbers of these ranges need; `together` has the groups where they are known."""
    groups = _Groups(graph, said, ranges)
    together = bordered(graph, said, ranges) if together is None else together
    for members, border in together:
        groups.choose(members, border)
    if groups.found:
        groups.agree([members for members, _ in together], Borders(graph, said))
        groups.lower_within_weights()
    found = {number: exponent for number, exponent in groups.found.items() if exponent}
    return Chosen(found, _inner_of_all(graph, said, ranges, found))


def raises_products(graph: Graph, said: Said, wanted: Chosen) -> bool:
    """Whether a product of two computed tensors, element by element, is made larger."""
    return any(_multiplies(node, said) and wanted.values.get(id(node.output), 0) > 0 for node in graph.nodes)


def _multiplies(node: Node, said: Said) -> bool:
    return said.exponents[id(node)].multiplies_two and not said.most[id(node)]


class _Groups:
    """The exponents `found` for groups of values, by id of the value; `movable` has, by id, the groups of those that
    may have any."""

    def __init__(self, graph: Graph, said: Said, ranges: Ranges) -> None:
        self._graph, self._said, self._ranges = graph, said, ranges
        self._made, self._spread = graph.producers(), spread(graph, said)
        self._counts = _counts(graph, said, said.products)
        self._movable: dict[int, Sequence[int]] = {}
        self.found: dict[int, int] = {}

    def choose(self, members: Sequence[int], border: Border) -> None:
        """The exponent of a group."""
        known = self._known(members)
        exponent = _exponent(known, self._counts, self._ranges, border) if known else 0
        if exponent:
            exponent = self._for_products(exponent, min(self._rooms(known, border), default=exponent), known)
            self.found.update(dict.fromkeys(members, exponent))
        if exponent or not border.costs:
            self._movable.update(dict.fromkeys(members, members))

    def agree(self, together: Sequence[Sequence[int]], borders: Borders) -> None:
        """Where the exponents of neighbours differ, and do not need to, they are made the same."""
        seen = felt(self._graph, self._said, self._ranges)

        def bounds(members: Sequence[int]) -> Bounds | None:
            known, border = self._known(members), borders.of(members)
            if not known or border.logarithms or any(member not in self._made for member in members):
                return None
            stored = max(SMALL, border.norms)
            digits = [math.log2(max(stored, least(self._counts.get(member, 0))) / seen[member]) for member in known
                      if member not in self._said.scores]
            largest = max(self._ranges[member].highest if border.scores else self._ranges[member].largest
                          for member in members)
            most = _room(largest, RAISED)
            most = min([most, *self._rooms(known, border)]) if most > 0 else min(0, _room(largest, LIMIT))
            return Bounds(math.ceil(max(digits, default=most)), most)

        Agreement(self._graph, self._said, self.found, together, bounds).reach()

    def _rooms(self, members: Sequence[int], border: Border) -> list[int]:
        """The exponents up to which the products that a group is made of are in range."""
        rooms = [_products_room(self._made[member], self._said, self._ranges) for member in border.linear]
        return rooms + [_factors_room(self._made[member], self._said, self._ranges) - self._spread.get(member, 0)
                        for member in members if member in self._made]

    def lower_within_weights(self) -> None:
        """Where weights do not take up all that their result is held smaller by than what they multiply, that is held
        smaller too, so that no task has to make it so; results first, since what reads them may be why they are."""
        for node in reversed(self._graph.nodes):
            for x, weight in factors(node, self._said.exponents[id(node)]):
                short = self.found.get(id(x), 0) - self.found.get(id(node.output), 0)
                left = short + share(weight.array(), -short) if short > 0 else 0
                if left:
                    self._lower(self._movable.get(id(x), ()), left)

    def _known(self, members: Sequence[int]) -> list[int]:
        return [member for member in members if member in self._ranges and self._ranges[member].usual]

    def _lower(self, members: Sequence[int], short: int) -> None:
        """Lowers the exponent of a group where that leaves it its digits."""
        known = self._known(members)
        exponent = self.found.get(known[0], 0) - short if known else 0
        if known and self._keeps_digits(known, exponent):
            self.found.update(dict.fromkeys(members, exponent))

    def _for_products(self, exponent: int, most: int, members: Sequence[int]) -> int:
        """The exponent of a group, no larger than its products have room for: what is raised is raised less, what is
        made smaller is made smaller still where it keeps its digits."""
        if exponent > 0:
            return max(0, min(exponent, most))
        return most if most < exponent and self._keeps_digits(members, most) else exponent

    def _keeps_digits(self, members: Sequence[int], exponent: int) -> bool:
        """Whether what is stored and summed of a group has its digits with an exponent."""
        return all(self._ranges[member].usual * 2.0 ** exponent >= max(SMALL, least(self._counts.get(member, 0)))
                   for member in members)


def stay_as_they_are(graph: Graph, said: Said, ranges: Ranges, times: tuple[float, float]) -> bool:
    """Whether it is seen without looking for groups that nothing is `chosen` for ranges whose largest numbers and root
    mean squares are up to, and from, so many times those: nothing is too large for a sum, nothing that can be given
    digits lacks them, and there are no logarithms, which sums are raised for."""
    larger, smaller = times
    stored = max(SMALL, *(beside_epsilon(node) for node in graph.nodes
                          if said.exponents[id(node)].relation is Relation.NORM), 0.0)
    return all(seen.largest * larger <= LIMIT for seen in ranges.values()) and \
        all(about.relation is not Relation.LOWERING for about in said.exponents.values()) and \
        any(all(ranges[number].usual * smaller >= max(stored, least(count)) or not ranges[number].usual
                for number, count in _counts(graph, said, counted).items() if number in ranges)
            for counted in (said.most, said.products))


def _counts(graph: Graph, said: Said, counted: Mapping[int, int]) -> dict[int, int]:
    """How many products each value is a sum of, by id, as they were `counted` of nodes; 0 where it is made of others,
    but of no sum. A constant times a sum with constant weights is folded into these, and is such a sum then."""
    found, made = dict[int, int](), graph.producers()
    for node in graph.nodes:
        about, count = said.exponents[id(node)], counted[id(node)]
        if about.relation not in MADE and not count:
            continue
        if about.relation is Relation.SCALED:
            x = node[about.operands[0]]
            before = made.get(id(x))
            weighted = before is not None and said.exponents[id(before)].relation in WEIGHTED
            count = found.get(id(x), 0) if weighted else 0
        found |= dict.fromkeys(map(id, node.outputs), 1 if about.relation is Relation.AFFINE else count)
    return found


def _products_room(node: Node, said: Said, ranges: Ranges) -> int:
    """The exponent up to which the largest product that a node sums is in range: where products cancel, their sum may
    be small. Where none is below 0 none is larger than its sum."""
    (x, weight), = factors(node, said.exponents[id(node)])
    seen, array = ranges.get(id(x)), weight.array()
    if seen is not None and not seen.lowest and not below_zero(array):
        product = ranges[id(node.output)].largest
    else:
        product = largest_magnitude(array) * (seen.largest if seen else 0.0)
    return _room(product, SUM_LIMIT / 2) if product else MOST


def _factors_room(node: Node, said: Said, ranges: Ranges) -> int:
    """The exponent up to which a product of the largest numbers of two tensors is in range: a gate may leave little of
    them on samples, and all of them on other inputs."""
    if not _multiplies(node, said):
        return MOST
    first, second = (ranges.get(id(node[name])) for name in said.exponents[id(node)].operands)
    product = first.largest * second.largest if first is not None and second is not None else 0.0
    return _room(product, SUM_LIMIT / 2) if product else MOST


def _inner_of_all(graph: Graph, said: Said, ranges: Ranges, found: Mapping[int, int]) -> Mapping[int, int]:
    """The exponents that sums have beside those of their results; none where these count steps, of whatever size."""
    inner = {}
    users, joined = graph.users(), JoinedErrors(graph, said, ranges)
    for node in graph.nodes:
        if said.exponents[id(node)].relation is Relation.LINEAR and not _counts_steps(users.get(id(node.output), ())):
            exponent = found.get(id(node.output), 0)
            own = _inner(node, ranges[id(node.output)], exponent, said.products[id(node)], joined)
            if own > 0:
                own = max(0, min(own, _products_room(node, said, ranges) - exponent))
            if own:
                inner[id(node.output)] = own
    return inner


def strays(node: Node, said: Said, largest: float, usual: float) -> bool:
    """Whether the sums of a node with constant weights, of that largest number and root mean square, are too large or
    lose digits, whatever it costs."""
    return said.exponents[id(node)].relation is Relation.LINEAR and (largest > LIMIT or all(
        usual < COSTLY * least(counted[id(node)]) for counted in (said.most, said.products)))


def _counts_steps(users: Sequence[Node]) -> bool:
    """Whether what reads a sum rounds it to whole steps, which the sum is counted in then (ops.whole_sums)."""
    return bool(users) and all(get_op(node.op).rounds for node in users)


def _exponent(members: Sequence[int], counts: Mapping[int, int], ranges: Ranges, border: Border) -> int:
    """The exponent of a group: below 0 where its largest number is too large, above where its sums, or what is stored
    of it, are too small. Where it costs a task, sums with constant weights get theirs by themselves."""
    own = {member: 0 if border.costs and member in border.linear else counts[member]
           for member in members if member in counts}
    largest = max(ranges[member].highest if border.scores else ranges[member].largest for member in members)
    sums = any(own.values())
    if largest > (LIMIT if sums else STORED):
        return _room(largest) if _gains(largest, sums, ranges, border) else 0
    if border.logarithms and border.linear:
        return max(0, min(_room(largest), _for_logarithms(members, counts, ranges, largest)))
    return _raised(largest, own, ranges, border)


def _for_logarithms(members: Sequence[int], counts: Mapping[int, int], ranges: Ranges, largest: float) -> int:
    """The exponent from which on the smallest number that a logarithm reads of a group has the digits that its
    logarithm is rounded to: what is raised further has a larger one, of which less is left when that is taken back.
    MOST where no smallest number is known."""
    smallest = min((ranges[member].smallest or math.inf for member in members), default=math.inf)
    if math.isinf(smallest):
        return MOST
    sizes = abs(math.log(smallest)), abs(math.log(largest)), 1.0
    lost = max(least(counts.get(member, 0)) for member in members)
    return math.ceil(math.log2(max(SMALLEST_NORMAL, lost) / (smallest * max(sizes))))


def _raised(largest: float, counts: Mapping[int, int], ranges: Ranges, border: Border) -> int:
    """By how much to raise a group whose sums lose digits; what is only stored gains where it is read raised. Of scores
    their differences count, beside 1."""
    if border.scores:
        return 0
    share = COSTLY if border.costs else 1.0
    stored = max(border.norms, SMALL if border.relieves else 0.0)
    wanted = [math.log2(USUAL / ranges[member].usual) for member, count in counts.items()
              if ranges[member].usual < share * max(stored, least(count))]
    return max(0, min(_room(largest, RAISED), round(max(wanted)))) if wanted else 0


def _gains(largest: float, sums: bool, ranges: Ranges, border: Border) -> bool:
    """Whether it helps to make a group smaller: not where fp16 holds all of it anyway, nor where nothing of it that is
    read is read otherwise, and is then beyond fp16."""
    held = any(ranges[member].largest <= LARGEST_HALF for member in border.plain if member in ranges)
    return border.relieves or border.joined or (held and (sums or largest > LARGEST_HALF))


def _inner(node: Node, seen: Range, exponent: int, count: int, joined: JoinedErrors) -> int:
    """The exponent of a node's sums, of `count` products each, beside that of their result. It costs a task where there
    is a bias, and nothing else: whether an engine scales before or after it adds a bias is not known. For digits that
    nothing sees beside larger numbers there is no such task."""
    largest, usual = seen.largest * 2.0 ** exponent, seen.usual * 2.0 ** exponent
    costs = biased(node)
    large, needed = largest > LIMIT and seen.largest <= LARGEST_HALF, least(count) * (COSTLY if costs else 1.0)
    if not usual or not (large or usual < needed):
        return 0
    if costs and not large and _seen_beside(node, joined) * 2.0 ** exponent >= needed:
        return 0
    return _room(largest) if large else max(0, min(_room(largest, RAISED), round(math.log2(USUAL / usual)), MOST_OWN))


def _seen_beside(node: Node, joined: JoinedErrors) -> float:
    product = get_op(node.op).product
    return joined.beside(node.output, 1 if product is None else product.axis)


def _room(largest: float, limit: float = LARGEST) -> int:
    """The exponent that brings a number to the limit."""
    return math.floor(math.log2(limit / largest)) if 0 < largest < math.inf else 0


def least(count: int) -> float:
    """The root mean square from which on sums of so many products lose no digits that fp16 would keep: each product is
    rounded by up to half a quantum, evenly spread."""
    return QUANTUM * math.sqrt(count / 12) / LOST
