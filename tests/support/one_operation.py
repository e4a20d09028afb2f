"""A small graph of each MIL operation."""

from __future__ import annotations

from support.random_graphs import draw_graph
from support.random_operands import TABLE

from openane.errors import GraphError
from openane.graph import Graph

OPERATIONS = tuple(sorted(TABLE))
SEED, STEP, ATTEMPTS = 17, 7919, 100
TWO = ("fill", "range_1d", "non_zero")
"""Operations that need another beside them, as those of constants do."""


def drawn(seed: int, steps: int, op: str | None = None) -> Graph:
    """The first graph from `seed` on whose operands fit each other."""
    for attempt in range(seed, seed + ATTEMPTS * STEP, STEP):
        try:
            return draw_graph(attempt, TABLE, steps, op)
        except GraphError:
            continue
    raise AssertionError(f"no operands of {op} fit")


def graph_of(op: str, seed: int = SEED) -> Graph:
    """A graph of that operation, the same whenever it is asked for."""
    return drawn(seed, 2 if op in TWO or op.startswith("constexpr") else 1, op)
