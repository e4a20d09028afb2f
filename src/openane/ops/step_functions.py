"""Functions of whole steps of quantisation that become whole steps again, as one table or two.

Between two roundings there is often nothing but a function of single elements: a sigmoid, a hard swish in its parts, a
quotient and an erf. It is asked for as many numbers as there are steps, so a table chosen for these (step_tables) makes
few of them another step or none, where one for all numbers does so with one in twenty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from openane.graph import Node, Value, as_stated
from openane.ops import get_op
from openane.ops.arithmetic import scalar
from openane.ops.evaluate import evaluate_node
from openane.ops.lut import Lut
from openane.ops.rounding import EXACT_WHOLE
from openane.ops.step_pairs import Known, largest
from openane.ops.step_tables import Wanted, step_tables
from openane.ops.written_steps import stated_of
from openane.record_classes import dataclass

FEW = 1 / 50
"""Which share of a table's results may be another step."""
LONGEST = 24
"""Of how many nodes a function is at most."""


@dataclass(frozen=True, slots=True)
class StepFunction:
    """One table of the number of steps of x, or two, the sum of whose results are steps beside `middle`."""

    x: Value
    tables: tuple[Lut, ...]
    middle: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Of a graph: what makes values and what reads them, and the outputs, by id; which values are steps."""

    producers: Mapping[int, Node]
    users: Mapping[int, list[Node]]
    outputs: Collection[int]
    known: Known


def step_function(node: Node, units: float, around: Surroundings) -> StepFunction | None:
    """The function of steps that ends with this node, whose result becomes whole steps, `units` to 1; None where it is
    none, where other nodes read its parts, or where no table errs seldom enough."""
    bounds = {(stated_of(user, "low"), stated_of(user, "high")) for user in around.users[id(node.output)]}
    found = _function(node, around) if len(bounds) == 1 else None
    if found is None:
        return None
    (x, nodes), (low, high) = found, bounds.pop()
    steps = around.known(x)
    assert steps is not None, "what a function begins with are steps"
    whole = np.arange(stated_of(steps, "low"), stated_of(steps, "high") + 1) + stated_of(steps, "zero")
    if largest(steps) > EXACT_WHOLE:
        return None
    middle = int(np.rint((low + high) / 2))
    exact = _results(whole * np.float32(stated_of(steps, "scale")), x, nodes) / np.float32(1 / units) - middle
    whole, exact = _with_results(whole, exact)
    low, high = low - middle, high - middle
    nearest = np.clip(np.rint(exact + middle) - middle, low, high)
    made = step_tables(Wanted(whole, np.clip(exact, low - 1, high + 1), nearest, np.full_like(whole, low),
                              np.full_like(whole, high)))
    if made is None or made.error > 1 or made.share > FEW:
        return None
    return StepFunction(x, made.tables, middle)


def _with_results(whole: np.ndarray, exact: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers from the first to the last for which a function, as a root or a logarithm, has a result, and these; none
    where some between them have none."""
    places = np.flatnonzero(~np.isnan(exact))
    some = slice(places[0], places[-1] + 1) if len(places) and np.ptp(places) + 1 == len(places) else slice(0)
    return whole[some], exact[some]


def _results(numbers: np.ndarray, x: Value, nodes: list[Node]) -> np.ndarray:
    """What nodes in their order make of x, in fp32 from the constants' digits on."""
    results = {id(x): numbers.astype(np.float32)}
    for node in nodes:
        results[id(node.output)] = np.asarray(evaluate_node(as_stated(node), results)[0], np.float32)
    return results[id(nodes[-1].output)]


def _function(last: Node, around: Surroundings) -> tuple[Value, list[Node]] | None:
    """The steps that a node's results are a function of, and the nodes of that in their order."""
    found: dict[int, Node] = {}
    sources: dict[int, Value] = {}
    waiting = [last.output]
    while waiting:
        value = waiting.pop()
        if around.known(value) is not None:
            sources[id(value)] = value
        elif id(value) not in found:
            node = around.producers.get(id(value))
            if node is None or len(found) == LONGEST or not _of_elements(node, last.output.shape):
                return None
            found[id(value)] = node
            waiting += [each for each in node.values() if not each.constant]
    if len(sources) != 1 or not _alone(found, last, around):
        return None
    x, = sources.values()
    return (x, _in_order(found)) if x.shape == last.output.shape else None


def _alone(found: Mapping[int, Node], last: Node, around: Surroundings) -> bool:
    """Whether some node is more than arithmetic, and what is between is read by these nodes alone."""
    inside = {id(node) for node in found.values()}
    between = found.keys() - {id(last.output)}
    return any(get_op(node.op).unary is not None for node in found.values()) \
        and not any(key in around.outputs or any(id(user) not in inside for user in around.users[key])
                    for key in between)


def _of_elements(node: Node, shape: tuple[int, ...]) -> bool:
    """Whether each result depends on the elements of its place alone, and on numbers, and there are so many."""
    op = get_op(node.op)
    if len(node.outputs) != 1 or node.output.shape != shape or (op.unary is None and op.arithmetic is None):
        return False
    return all(value.dtype == "string" or scalar(value) is not None for value in node.values() if value.constant)


def _in_order(found: Mapping[int, Node]) -> list[Node]:
    """Nodes after those whose results they read."""
    order: list[Node] = []
    known: set[int] = set()
    while len(order) < len(found):
        for key, node in found.items():
            if key not in known and not any(id(value) in found and id(value) not in known for value in node.values()):
                known.add(key)
                order.append(node)
    return order
