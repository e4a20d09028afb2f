"""Values of a graph read as sums of products of one tensor's moments (see moments.py): means however they are taken,
squares, roots, reciprocals, and whatever adds, multiplies and reshapes those.

A value has all elements of the tensor in its order, or one for each mean in theirs, or broadcasts to the tensor.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

import numpy as np

from openane.graph import Graph, Node, Value
from openane.ops import arguments
from openane.ops.arithmetic import scalar
from openane.ops.averages import Average, average_of
from openane.ops.moments import ONE, Moments, Terms, X, number, plus

VIEWS = frozenset(["expand_dims", "identity", "reshape", "squeeze", "transpose", "cast", "flatten2d"])
POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "inverse": -1.0}
REALS = ("fp16", "fp32")
LARGEST = 6e4
"""An upper bound above it is what exporters write where there is none."""


Runs = tuple[tuple[bool, int], ...]
"""Runs of elements: whether they are averaged, and how many. See runs_of."""


class Layout(Enum):
    """What a value has elements for."""

    WHOLE = "those of x, in its order"
    KEPT = "the means, in their order"
    PART = "some dimensions of x, the others 1"
    TURNED = "those of x, the averaged ones elsewhere between the others"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a value is in terms of a tensor's moments; `logarithm`: that number times the logarithm of the terms. `runs`
    says which elements of a turned one are averaged (see runs_of)."""

    terms: Terms
    layout: Layout
    logarithm: float = 0.0
    runs: Runs = ()


class Reader:
    """Reads what a graph computes of `x` and its means over `axes`."""

    def __init__(self, graph: Graph, order: Mapping[int, int], x: Value, axes: Sequence[int]) -> None:
        self.x, self.axes = x, tuple(sorted(axes))
        self.kept = tuple(1 if d in self.axes else extent for d, extent in enumerate(x.shape))
        self.means = prod(self.kept)
        self.count = x.type.elements // self.means
        self.moments = Moments(self.axes, self.count)
        self.known: dict[int, Reading] = {id(x): Reading({X: np.ones(())}, Layout.WHOLE)}
        self._runs = runs_of(x.shape, self.axes)
        self._read(graph, order)

    def _read(self, graph: Graph, order: Mapping[int, int]) -> None:
        users = graph.users()
        waiting = sorted({order[id(node)] for node in users.get(id(self.x), [])})
        seen = set(waiting)
        while waiting:
            node = graph.nodes[heapq.heappop(waiting)]
            reading = self._reading(node)
            if reading is None:
                continue
            self.known[id(node.output)] = reading
            for user in users.get(id(node.output), []):
                if order[id(user)] not in seen:
                    seen.add(order[id(user)])
                    heapq.heappush(waiting, order[id(user)])

    def _reading(self, node: Node) -> Reading | None:
        if len(node.outputs) != 1 or node.output.dtype not in REALS:
            return None
        average = average_of(node)
        if average is not None:
            return self._averaged(node, average)
        if node.op in VIEWS or node.op == "tile":
            return self._viewed(node)
        if node.op == "select":
            return self._selected(node)
        if node.op in ("add", "sub", "mul", "real_div", "maximum", "minimum"):
            return self._combined(node)
        own = self.known.get(id(node.get("x")))
        return None if own is None else self._function(node, own)

    def _averaged(self, node: Node, average: Average) -> Reading | None:
        """A mean, a sum, a sum of squares or its root."""
        own = self.known.get(id(average.x))
        if own is None or own.logarithm or own.layout is Layout.PART:
            return None
        whole = own.layout in (Layout.WHOLE, Layout.TURNED)
        if whole and runs_of(average.x.shape, average.axes) != (own.runs or self._runs):
            return None
        if own.layout is Layout.KEPT and (average.square or any(average.x.shape[axis] > 1 for axis in average.axes)):
            return None
        factor = average.factor * (self.count if whole else 1)
        terms: Terms | None = own.terms
        if average.square:
            terms = self.moments.power(own.terms, 2)
        if terms is not None and whole:
            terms = self.moments.mean(terms)
        if terms is None:
            return None
        close = abs(factor - 1) < max(1e-3, average.slack)
        terms = terms if close else self.moments.times(terms, number(factor))
        if average.root and terms is not None:
            terms = self.moments.power(terms, 0.5)
        if terms is None:
            return None
        elements = node.output.type.elements
        return Reading(terms, Layout.KEPT) if elements == self.means else \
            self._spread(Reading(terms, Layout.KEPT), average.kept, node.output)

    def _viewed(self, node: Node) -> Reading | None:
        """The same elements in another shape, or repeated over the tensor."""
        own, result = self.known.get(id(node.get("x"))), node.output
        if own is None or node.get("x") is None:
            return None
        before = node["x"].shape
        if node.op == "transpose":
            perm = [int(axis) % len(before) for axis in node["perm"].array()]
            moved = [axis for axis in perm if before[axis] > 1]
            if moved != sorted(moved):
                return self._turned(own, before, perm)
        if result.type.elements == node["x"].type.elements:
            if own.layout is Layout.PART and _bare(before) != _bare(result.shape):
                return None
            return own
        return self._spread(own, before, result)

    def _selected(self, node: Node) -> Reading | None:
        """One of two where a constant says the same of all elements."""
        cond = node["cond"]
        if not cond.constant or cond.array().min() != cond.array().max():
            return None
        taken = node["a"] if cond.array().all() else node["b"]
        return self.known.get(id(taken)) if taken.shape == node.output.shape else None

    def _turned(self, own: Reading, before: Sequence[int], perm: Sequence[int]) -> Reading | None:
        """x with its dimensions in another order, where that of the means stays."""
        averaged = axes_along(before, self._runs) if own.layout is Layout.WHOLE else None
        kept = [axis for axis in perm if before[axis] > 1 and averaged is not None and axis not in averaged]
        if averaged is None or kept != sorted(kept):
            return None
        runs = runs_of([before[axis] for axis in perm], [place for place, axis in enumerate(perm) if axis in averaged])
        return replace(own, layout=Layout.TURNED, runs=runs)

    def _spread(self, own: Reading, before: Sequence[int], result: Value) -> Reading | None:
        """Means repeated over the tensor."""
        if own.layout is Layout.KEPT and result.type.elements == self.x.type.elements and \
                _padded(before, result.type.rank) == self._kept_of(result.shape):
            return Reading(own.terms, Layout.WHOLE, own.logarithm)
        return None

    def _combined(self, node: Node) -> Reading | None:
        layout = self._layout(node)
        sides = [self._side(value, layout, node.output) for value in (node["x"], node["y"])]
        if layout is None or sides[0] is None or sides[1] is None:
            return None
        first, second = sides[0], sides[1]
        terms = self._terms(node, first, second)
        if terms is not None:
            return Reading(terms, layout, runs=self._runs_of_operands(node) or ())
        numbers = scalar(node["y"]), scalar(node["x"])
        own = self.known.get(id(node["x"])) or self.known.get(id(node["y"]))
        if own is None or not own.logarithm:
            return None
        if node.op == "mul" and (gain := numbers[0] if numbers[0] is not None else numbers[1]) is not None:
            return Reading(own.terms, own.layout, own.logarithm * gain)
        return Reading(own.terms, own.layout, own.logarithm / numbers[0]) \
            if node.op == "real_div" and numbers[0] else None

    def _terms(self, node: Node, first: Terms, second: Terms) -> Terms | None:
        """The result of an operation on two operands without logarithms."""
        if any(reading is not None and reading.logarithm
               for reading in (self.known.get(id(value)) for value in (node["x"], node["y"]))):
            return None
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
        value = scalar(node["x"]), scalar(node["y"])
        bound, own = (value[0], second) if value[0] is not None else (value[1], first)
        if bound is None:
            return None
        return self.moments.at_least(own, bound) if node.op == "maximum" else own if bound > LARGEST else None

    def _layout(self, node: Node) -> Layout | None:
        """What the result of an operation on two operands has elements for."""
        shape, rank = node.output.shape, len(node.output.shape)
        operands = [(value, self.known[id(value)].layout) for value in (node["x"], node["y"]) if id(value) in self.known]
        if node.output.type.elements == self.means and all(layout is Layout.KEPT for _, layout in operands):
            return Layout.KEPT
        whole = node.output.type.elements == self.x.type.elements
        runs = self._runs_of_operands(node)
        if runs is None:
            return None
        kept = self._kept_of(shape, runs) if whole else self.kept
        straight = _bare(shape) == _bare(self.x.shape)
        for value, layout in operands:
            padded = _padded(value.shape, rank)
            if layout in (Layout.WHOLE, Layout.TURNED) and (padded != shape or (layout is Layout.WHOLE and runs)):
                return None
            if layout is Layout.KEPT and (kept is None or padded != _padded(kept, rank)):
                return None
            if layout is Layout.PART and whole and not straight:
                return None
        if whole:
            return Layout.TURNED if runs else Layout.WHOLE
        return Layout.PART if rank <= self.x.type.rank and all(
            extent in (1, full) for extent, full in zip(_padded(shape, self.x.type.rank), self.x.shape, strict=True)) \
            else None

    def _runs_of_operands(self, node: Node) -> Runs | None:
        """Which elements of the turned operands are averaged: empty without such, None where they differ."""
        found = {self.known[id(value)].runs for value in (node["x"], node["y"])
                 if id(value) in self.known and self.known[id(value)].layout is Layout.TURNED}
        return None if len(found) > 1 else found.pop() if found else ()

    def _side(self, value: Value, layout: Layout | None, result: Value) -> Terms | None:
        """An operand as terms; a constant as it broadcasts to x."""
        if id(value) in self.known:
            return self.known[id(value)].terms
        if layout is None or not value.constant or value.dtype not in REALS:
            return None
        array = value.array().astype(np.float64)
        if array.size == 1:
            return number(array.item())
        if layout is Layout.KEPT:
            return {ONE: np.broadcast_to(array, result.shape).reshape(self.kept)}
        rank = self.x.type.rank
        if layout is Layout.TURNED or (layout is Layout.WHOLE and _bare(result.shape) != _bare(self.x.shape)):
            return None
        shape = _bare(array.shape)
        return {ONE: array.reshape((1,) * (rank - len(shape)) + shape)} if len(shape) <= rank else None

    def _function(self, node: Node, own: Reading) -> Reading | None:
        """The result of an operation on one tensor and numbers."""
        if own.logarithm:
            return self._exponential(node, own)
        epsilon = node.get("epsilon")
        shifted = own.terms if epsilon is None else plus(own.terms, number(scalar(epsilon) or 0.0))
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

    def _exponential(self, node: Node, own: Reading) -> Reading | None:
        """e to a number times a logarithm is a power."""
        terms = self.moments.power(own.terms, own.logarithm) if node.op == "exp" else None
        return None if terms is None else Reading(terms, own.layout)

    def _kept_of(self, shape: Sequence[int], runs: Runs = ()) -> tuple[int, ...] | None:
        """A shape of x's elements with 1 where means are taken; None where dimensions lie across."""
        axes = axes_along(shape, runs or self._runs)
        return None if axes is None else tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def axes_along(shape: Sequence[int], runs: Runs) -> tuple[int, ...] | None:
    """The axes of a shape that average what runs of elements say (see runs_of), those of extent 1 between them
    included; None where dimensions lie across."""
    groups, found = list(runs), []
    left = groups[0][1] if groups else 1
    for axis, extent in enumerate(shape):
        if left == 1 and extent > 1:
            groups.pop(0)
            left = groups[0][1]
        if left % extent:
            return None
        left //= extent
        if extent > 1 and groups[0][0]:
            found.append(axis)
    return tuple(found)


def runs_of(shape: Sequence[int], axes: Sequence[int]) -> Runs:
    """Runs of elements (averaged?, how many): the same for shapes and axes that average the same elements."""
    runs: list[tuple[bool, int]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        if runs and runs[-1][0] == (axis in axes):
            extent *= runs.pop()[1]
        runs.append((axis in axes, extent))
    return tuple(runs)


def _bare(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape without leading ones."""
    first = next((axis for axis, extent in enumerate(shape) if extent > 1), len(shape))
    return tuple(shape[first:])


def _padded(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    bare = _bare(shape)
    return (1,) * (rank - len(bare)) + bare
