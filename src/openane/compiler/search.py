"""Programs that are modelled to be fastest: from level 2 on a graph is compiled by several choices, and the one whose
programs take the least time in the model (`timing`) is taken.

The budget is the number of other ways that are tried, BUDGET by level; those that would change nothing are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from openane.chips import get_chip
from openane.compiler.partition.capacity import Capacity
from openane.compiler.partition.events import Tell
from openane.compiler.partition.hosting import AllowHost
from openane.compiler.partition.planning import PartitionPlan, plan
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.ops.optimisation import BY_LEVEL, Choices, level_of, with_choices
from openane.passes.in_strips import in_strips

BUDGET = (0, 0, 3, 11)
"""Ways that are tried beside the level's own."""
SIZES = (0, 1 << 19, 1 << 18, 3 << 18, 1 << 20, 1 << 17)
"""Bytes of the largest tensor in a strip, the most promising first: from no strips to half of L2."""


def best_plan(graph: Graph, target: str, allow_host: AllowHost, tell: Tell | None,
              capacity: Capacity | None) -> PartitionPlan:
    """The plan of the graph that takes the least modelled time of those its level allows to try; the first where two
    take as long. Errors are those of `planning.plan`."""
    level = level_of(graph)
    if not BUDGET[level]:
        return plan(graph, target, allow_host, tell, capacity)
    own = BY_LEVEL[level]
    best, chosen = plan(graph, target, allow_host, None, capacity), own
    seconds = modelled(best, target)
    for choices in _others(graph, target, allow_host, capacity, own, BUDGET[level]):
        try:
            made = plan(with_choices(graph, choices), target, allow_host, None, capacity)
        except UnsupportedError:
            continue  # what does not fit in another way fits in the level's own
        taken = modelled(made, target)
        if taken < seconds:
            best, chosen, seconds = made, choices, taken
    return best if tell is None else plan(with_choices(graph, chosen), target, allow_host, tell, capacity)


def modelled(made: PartitionPlan, target: str) -> float:
    """Seconds of all programs of a plan in the model of a generation's first chip."""
    from openane.timing import program_time, rates

    speed = rates(get_chip(target).facts.chip)
    return sum(program_time(piece.program, speed).seconds for piece in made.pieces)


def _others(graph: Graph, target: str, allow_host: AllowHost, capacity: Capacity | None, own: Choices,
            budget: int) -> Iterator[Choices]:
    """Other choices, as many as the budget has, that make another graph."""
    plain = plan(with_choices(graph, Choices()), target, allow_host, None, capacity).graph
    known: list[Sequence[str]] = [_kinds(in_strips(plain, own))]
    for choices in (replace(own, strip_bytes=size, strip_products=products) for products in (0, 1) for size in SIZES):
        kinds = _kinds(in_strips(plain, choices))
        if kinds not in known and budget:
            known.append(kinds)
            budget -= 1
            yield choices


def _kinds(graph: Graph) -> list[str]:
    """What tells graphs apart that are made of one by strips."""
    return [f"{node.op} {node.outputs[0].type}" for node in graph.nodes]
