"""Values of a graph read as sums of products of one tensor's moments (see moments.py): means however they are taken,
squares, roots, reciprocals, and whatever adds, multiplies and reshapes those."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.averages import Average, average_of
from openane.ops.element_layouts import ElementLayout, LaidOut, Layouts, Runs, bare, padded, runs_of
from openane.ops.moments import ONE, SAME, Moments, Spread, Terms, X, close, number, plus
from openane.ops.weights import numbers
from openane.record_classes import dataclass

VIEWS = frozenset(["expand_dims", "identity", "reshape", "squeeze", "transpose", "cast", "flatten2d"])
SHAPES = VIEWS - {"transpose"}
POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "inverse": -1.0}
PAIRS = frozenset(["add", "sub", "mul", "real_div", "maximum", "minimum"])
REALS = ("fp16", "fp32")
LARGEST = 6e4
"""An upper bound above it is what exporters write where there is none."""


@dataclass(frozen=True, slots=True)
class MomentReading:
    """What a value is in terms of a tensor's moments; `logarithm`: that number times the logarithm of the terms. `runs`
    says which elements of a turned one are averaged."""

    terms: Terms
    layout: ElementLayout
    logarithm: float = 0.0
    runs: Runs = ()


class PlacedGraph:
    """A graph with the positions of its nodes, by id, the node that makes each value, by id of the value, and the sums
    and means that its nodes take."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.users, self.producers = graph, graph.users(), graph.producers()
        self.order = {id(node): place for place, node in enumerate(graph.nodes)}
        self.averages = [average for node in graph.nodes if (average := average_of(node)) is not None]

    def origin(self, value: Value) -> Value:
        """What a value is another shape of."""
        node = self.producers.get(id(value))
        while node is not None and node.op in SHAPES and node["x"].dtype in REALS:
            value = node["x"]
            node = self.producers.get(id(value))
        return value

    def place(self, value: Value) -> int:
        """Where a value is made; -1 for an input."""
        node = self.producers.get(id(value))
        return -1 if node is None else self.order[id(node)]


class MomentReader:
    """Reads what a graph computes of `x`, in whatever shape, and its means over `axes`: `known` by id of the value, and
    the `nodes` that compute it when x is there."""

    def __init__(self, placed: PlacedGraph, x: Value, axes: Sequence[int]) -> None:
        self.x, self.layouts = x, Layouts(x.shape, axes)
        self.axes = self.layouts.axes
        self.count = self.layouts.elements // self.layouts.means
        self.moments = Moments(self.axes, self.count)
        self._settled: list[Spread] = []
        self.nodes: list[Node] = []
        whole, origin = MomentReading({X: np.ones(())}, ElementLayout.WHOLE), placed.origin(x)
        self.known: dict[int, MomentReading] = {id(x): whole, id(origin): whole}
        with np.errstate(all="ignore"):  # constants may be infinite
            self._read(placed, origin, placed.place(x))

    def _read(self, placed: PlacedGraph, origin: Value, first: int) -> None:
        order, waiting = placed.order, list[int]()
        seen: set[int] = set()

        def await_users(value: Value) -> None:
            for place in {order[id(user)] for user in placed.users.get(id(value), [])} - seen:
                seen.add(place)
                heapq.heappush(waiting, place)

        await_users(origin)
        while waiting:
            place = heapq.heappop(waiting)
            node = placed.graph.nodes[place]
            reading = self._reading(node)
            if reading is not None:
                self.known[id(node.output)] = reading
                self._note(node, reading, place > first)
                await_users(node.output)

    def _note(self, node: Node, reading: MomentReading, there: bool) -> None:
        """Keeps a node that was read, and its spread where it is computed well."""
        if there:
            self.nodes.append(node)
        spread = self.moments.spread(reading.terms) if node.op == "reduce_sum_square" else None
        if spread is not None and spread.gain < 2:
            self._settled.append(spread)

    def _reading(self, node: Node) -> MomentReading | None:
        if len(node.outputs) != 1 or node.output.dtype not in REALS:
            return None
        average = average_of(node)
        if average is not None:
            return self._averaged(node, average)
        if node.op in PAIRS:
            return self._logarithm(node) or self._combined(node)
        if node.op == "select":
            return self._selected(node)
        own = self._of(node.get("x"))
        if own is None:
            return None
        return self._viewed(node, own) if node.op in VIEWS or node.op == "tile" else self._function(node, own)

    def settled(self, spread: Spread) -> bool:
        """Whether a spread is computed as the sum of squares of what is small enough already."""
        return any(spread.centred == other.centred and close(np.asarray(spread.gain), np.asarray(other.gain))
                   for other in self._settled)

    def _of(self, value: Value | None) -> MomentReading | None:
        return self.known.get(id(value))

    def _averaged(self, node: Node, average: Average) -> MomentReading | None:
        """A mean, a sum, a sum of squares or its root."""
        own = self._of(average.x)
        if own is None or not self._averages(own, average):
            return None
        whole = own.layout is not ElementLayout.KEPT
        terms = self._sum(own.terms, average) if whole else self.moments.times(own.terms, number(average.factor))
        if terms is not None and average.root:
            terms = self.moments.power(terms, 0.5)
        if terms is None:
            return None
        found = MomentReading(terms, ElementLayout.KEPT)
        return found if node.output.type.elements == self.layouts.means else \
            self._spread(found, average.kept, node.output)

    def _averages(self, own: MomentReading, average: Average) -> bool:
        """Whether an average is over the axes, or over one mean each."""
        if own.logarithm or own.layout is ElementLayout.PART:
            return False
        if own.layout is ElementLayout.KEPT:
            return average.count == 1 and not average.square
        return runs_of(average.x.shape, average.axes) == (own.runs or self.layouts.runs)

    def _sum(self, terms: Terms, average: Average) -> Terms | None:
        """A multiple of the sum over the axes, of the terms or their square."""
        squares = self.moments.power(terms, 2) if average.square else terms
        mean = None if squares is None else self.moments.mean(squares)
        factor = average.factor * self.count
        return mean if mean is None or abs(factor - 1) < max(SAME, average.slack) else \
            self.moments.times(mean, number(factor))

    def _viewed(self, node: Node, own: MomentReading) -> MomentReading | None:
        """The same elements in another shape, or repeated over the tensor."""
        before, result = node["x"].shape, node.output
        if node.op == "transpose":
            perm = [int(axis) % len(before) for axis in node["perm"].array()]
            moved = [axis for axis in perm if before[axis] > 1]
            if moved != sorted(moved):
                runs = self.layouts.turned(before, perm) if own.layout is ElementLayout.WHOLE else None
                return None if runs is None else replace(own, layout=ElementLayout.TURNED, runs=runs)
        if result.type.elements != node["x"].type.elements:
            return self._spread(own, before, result)
        return own if own.layout is not ElementLayout.PART or bare(before) == bare(result.shape) else None

    def _spread(self, own: MomentReading, before: Sequence[int], result: Value) -> MomentReading | None:
        """Means repeated over the tensor."""
        if own.layout is ElementLayout.KEPT and result.type.elements == self.layouts.elements and \
                padded(before, result.type.rank) == self.layouts.kept_of(result.shape):
            return replace(own, layout=ElementLayout.WHOLE)
        return None

    def _selected(self, node: Node) -> MomentReading | None:
        """One of two where a constant says the same of all elements."""
        cond = node["cond"]
        if not cond.constant or cond.array().min() != cond.array().max():
            return None
        taken = node["a"] if cond.array().all() else node["b"]
        return self._of(taken) if taken.shape == node.output.shape else None

    def _combined(self, node: Node) -> MomentReading | None:
        """The result of an operation on two operands."""
        known = [(value, reading) for value in (node["x"], node["y"]) if (reading := self._of(value)) is not None]
        found = self.layouts.of_result(node.output.shape, [LaidOut(value.shape, reading.layout, reading.runs)
                                                           for value, reading in known])
        if found is None or any(reading.logarithm for _, reading in known):
            return None
        first, second = (self._side(node[name], found[0], node.output) for name in ("x", "y"))
        terms = None if first is None or second is None else self._pair(node, first, second)
        return None if terms is None else MomentReading(terms, found[0], runs=found[1])

    def _side(self, value: Value, layout: ElementLayout, result: Value) -> Terms | None:
        """An operand as terms; a constant as it broadcasts to x."""
        own = self._of(value)
        if own is not None:
            return own.terms
        if not value.constant or value.dtype not in REALS:
            return None
        array = self.layouts.constant(numbers(value).astype(np.float64), layout, result.shape)
        return None if array is None else {ONE: array} if array.size > 1 else number(array.item())

    def _pair(self, node: Node, first: Terms, second: Terms) -> Terms | None:
        if node.op == "add":
            return plus(first, second)
        if node.op == "sub":
            return plus(first, {term: -gain for term, gain in second.items()})
        if node.op == "mul":
            return self.moments.times(first, second)
        if node.op == "real_div":
            inverse = {ONE: 1 / second[ONE]} if set(second) == {ONE} and second[ONE].all() else \
                self.moments.power(second, -1)
            return None if inverse is None else self.moments.times(first, inverse)
        return self._extreme(node, first, second)

    def _extreme(self, node: Node, first: Terms, second: Terms) -> Terms | None:
        """The larger or smaller of the terms and a number."""
        bound, own = (scalar(node["x"]), second) if node["x"].constant else (scalar(node["y"]), first)
        if bound is None:
            return None
        if node.op == "minimum":
            return own if bound > LARGEST else None
        return self.moments.at_least(own, bound)

    def _logarithm(self, node: Node) -> MomentReading | None:
        """A multiple of a logarithm."""
        for own, other in ((self._of(node["x"]), node["y"]), (self._of(node["y"]), node["x"])):
            gain = scalar(other)
            if own is None or not own.logarithm or not gain:
                continue
            if node.op == "mul":
                return replace(own, logarithm=own.logarithm * gain)
            if node.op == "real_div" and other is node["y"]:
                return replace(own, logarithm=own.logarithm / gain)
        return None

    def _function(self, node: Node, own: MomentReading) -> MomentReading | None:
        """The result of an operation on one tensor and numbers."""
        if own.logarithm:
            return self._exponential(node, own)
        epsilon = node.get("epsilon")
        shifted = own.terms if epsilon is None else plus(own.terms, number(float(numbers(epsilon))))
        if node.op == "log":
            return replace(own, terms=shifted, logarithm=1.0)
        exponent = scalar(node["y"]) if node.op == "pow" else POWERS.get(node.op)
        if exponent is not None:
            terms = self.moments.power(shifted, exponent)
        elif node.op == "linear_activation":
            scaled = self.moments.times(shifted, number(arguments(node).number("alpha")))
            terms = None if scaled is None else plus(scaled, number(arguments(node).number("beta")))
        else:
            terms = self._bounded(node, shifted)
        return None if terms is None else replace(own, terms=terms)

    def _bounded(self, node: Node, terms: Terms) -> Terms | None:
        """relu, clip, threshold and abs of what is above 0."""
        if node.op in ("relu", "abs"):
            return self.moments.at_least(terms, 0.0)
        if node.op == "threshold" or (node.op == "clip" and arguments(node).number("beta") > LARGEST):
            return self.moments.at_least(terms, arguments(node).number("alpha"))
        return None

    def _exponential(self, node: Node, own: MomentReading) -> MomentReading | None:
        """e to a number times a logarithm is a power."""
        terms = self.moments.power(own.terms, own.logarithm) if node.op == "exp" else None
        return None if terms is None else replace(own, terms=terms, logarithm=0.0)
