"""Functions of one tensor that are written out in other operations, found by what they are for numbers from -6 to 6.

softplus and sigmoid are written with exponentials that fp16 does not hold beyond 11. silu and gelu are written as x
times a share, which errs as little as the operations do where functions are to be close (accuracy.FUNCTIONS), and takes
more tasks; elsewhere these are one table, which errs more, and what is written is left. hard_sigmoid and hard_swish,
which exporters write with relu6, take half the tasks as one share and its product with x.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, lru_cache
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Node, Value
from openane.ops import functions, get_op
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.arithmetic import scalar
from openane.ops.evaluate import evaluate_node
from openane.ops.moment_reading import PlacedGraph
from openane.ops.rewriter import Rewriter
from openane.record_classes import dataclass

Settings = Mapping[str, Any]
GRID = np.concatenate([np.linspace(-6, 6, 49), [-0.03, 0.07]]).astype(np.float32)
TOLERANCE = 5e-4
"""What constants that are rounded to fp16 change at most, absolutely and relatively."""
MOST = 14
"""Operations a function is written in at most."""
HARD: Settings = {"alpha": 1 / 6, "beta": 0.5}
"""Slope and offset of the hard sigmoid that hard swish is made of, PyTorch's and Paddle's."""
HARD_SWISH = "hard_swish"
"""x times the hard sigmoid of x: MIL has no operation that is it."""
EXPONENTIAL = frozenset(["exp"])
PARTS = frozenset(["exp", "erf", "tanh", "sigmoid", "relu6", "clip", "minimum"])
"""One of these is among the operations of any function that is written out: of those looked for always, and where
functions are to be close."""


def written_functions(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, with functions that are written out as nodes of their own."""
    graph, made = placed.graph, dict[int, tuple[Node, ...]]()
    search = _Search(placed.producers, graph.metadata.get(FUNCTIONS) == CLOSE)
    if not search.may_hold(graph.nodes):
        return graph.nodes
    for node in graph.nodes:
        found = search.found(node)
        if found is not None:
            x, op, settings = found
            rewriter = Rewriter(node, names)
            made[id(node)] = rewriter.instead([_single(rewriter, x, op, settings)])
    return [new for node in graph.nodes for new in made.get(id(node), (node,))]


@cache
def _wanted(close: bool) -> tuple[tuple[str, Settings, np.ndarray], ...]:
    """Functions that are looked for: name, settings, values on the grid."""
    x = GRID.astype(np.float64)
    found: list[tuple[str, Settings, np.ndarray]] = [
        ("softplus", {}, functions.softplus(x)), ("sigmoid", {}, functions.sigmoid(x)), ("tanh", {}, np.tanh(x))]
    if close:
        found.append(("silu", {}, x * functions.sigmoid(x)))
        found += [("gelu", {"mode": mode}, functions.gelu(x, mode))
                  for mode in ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")]
        hard = np.clip(HARD["alpha"] * x + HARD["beta"], 0, 1)
        found += [("sigmoid_hard", HARD, hard), (HARD_SWISH, HARD, x * hard)]
    return tuple(found)


def _single(rewriter: Rewriter, x: Value, op: str, settings: Settings) -> Value:
    """The function of x."""
    if op == HARD_SWISH:
        return rewriter.single("mul", x=x, y=rewriter.single("sigmoid_hard", x=x, **settings))
    return rewriter.single(op, x=x, **settings)


@dataclass(frozen=True, slots=True)
class _Search:
    """Looks for functions among nodes, which `producers` has by the id of what they make: those close to the model's
    too, where they are to be `close`."""

    producers: Mapping[int, Node]
    close: bool
    _known: dict[int, bool] = field(default_factory=dict)

    def may_hold(self, nodes: Iterable[Node]) -> bool:
        """Whether a function may be written in these."""
        wanted = PARTS if self.close else EXPONENTIAL
        return any(node.op in wanted for node in nodes)

    def found(self, node: Node) -> tuple[Value, str, Settings] | None:
        """(x, function, settings) of the function of x the node ends."""
        if node.op not in ("add", "inverse", "log", "mul", "real_div"):
            return None
        parts = self._parts(node)
        if len(parts) < 2 or not self.may_hold(parts):
            return None
        for x in _sources(parts, node):
            lead: dict[int, Node] = {}
            if self._leads(node.output, x, lead) and self.may_hold(lead.values()):
                found = _function(_Written.of(lead, x), self.close)
                if found is not None:
                    return x, *found
        return None

    def _parts(self, node: Node) -> list[Node]:
        """The node and those before it that compute each element from one and from numbers, as far as MOST."""
        found, waiting = dict[int, Node](), [node]
        while waiting and len(found) < MOST:
            part = waiting.pop(0)
            if id(part) in found or not self._elementwise(part):
                continue
            found[id(part)] = part
            waiting += [self.producers[id(value)] for value in part.values() if id(value) in self.producers]
        return list(found.values())

    def _elementwise(self, node: Node) -> bool:
        """As the function of that name, which is asked once of each node."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = _elementwise(node)
        return known

    def _leads(self, value: Value, x: Value, parts: dict[int, Node]) -> bool:
        """Whether a value is computed of x and numbers alone; `parts` takes the nodes that do it, in their order."""
        if value is x or value.constant or id(value) in parts:
            return True
        node = self.producers.get(id(value))
        if node is None or len(parts) >= MOST or not self._elementwise(node) or \
                not all(self._leads(operand, x, parts) for operand in node.values()):
            return False
        parts[id(value)] = node
        return True


def _elementwise(node: Node) -> bool:
    """Whether each element of the result is a function of one of each operand; constants are numbers."""
    if len(node.outputs) != 1 or node.output.dtype not in ("fp16", "fp32"):
        return False
    op = get_op(node.op)
    return (op.unary is not None or op.arithmetic is not None or node.op == "pow") and \
        all(not value.constant or value.dtype == "string" or scalar(value) is not None for value in node.values())


def _sources(parts: list[Node], last: Node) -> Iterator[Value]:
    """What the function may be one of: operands of its parts, of the type of its result."""
    seen: set[int] = set()
    for part in parts:
        for value in part.values():
            if not value.constant and id(value) not in seen and value.type == last.output.type:
                seen.add(id(value))
                yield value


@dataclass(frozen=True, slots=True)
class _Written:
    """Operations that compute one number of another, `x`, in their order. They are equal where what is `said` is: of
    each operation its name and operands, of these x, numbers of earlier operations or constants."""

    said: Hashable
    nodes: tuple[Node, ...] = field(compare=False)
    x: Value = field(compare=False)

    @staticmethod
    def of(parts: Mapping[int, Node], x: Value) -> _Written:
        """The operations of `parts`, which are by id of their results."""
        numbers = {id(x): -1} | {result: number for number, result in enumerate(parts)}
        said = tuple([(node.op, node.output.dtype, *node.operands, *[_said(value, numbers) for value in node.values()])
                      for node in parts.values()])
        return _Written(said, tuple(parts.values()), x)


def _said(value: Value, numbers: Mapping[int, int]) -> Hashable:
    """What tells an operand from others: the number of what made it, or type and content of a constant."""
    if id(value) in numbers:
        return numbers[id(value)]
    return value.type, value.data.tobytes() if isinstance(value.data, np.ndarray) else value.data


@lru_cache(maxsize=256)
def _function(written: _Written, close: bool) -> tuple[str, Settings] | None:
    """The function that is written out, by name and settings; None where it is none of those looked for. Models write
    the same one again and again."""
    values = _values(written)
    if values is None:
        return None
    wanted = _wanted(close)
    errors = [float((np.abs(values - of) / (1 + np.abs(of))).max()) for *_, of in wanted]
    best = int(np.argmin(errors))
    return wanted[best][:2] if errors[best] <= TOLERANCE else None


def _values(written: _Written) -> np.ndarray | None:
    """What the operations make of the grid in place of x; None where they cannot."""
    known: dict[int, np.ndarray] = {id(written.x): GRID}
    result = GRID
    for node in written.nodes:
        try:
            result = known[id(node.output)] = evaluate_node(node, known)[0]
        except GraphError:
            return None
    return result if result.shape == GRID.shape and np.isfinite(result).all() else None
