"""What every compiled graph must hold on every generation: random graphs are compiled, verified, run, and compared."""

from __future__ import annotations

import numpy as np
from support.random_graphs import LIMIT, draw_graph, draw_inputs, spread
from support.random_operands import TABLE

import openane as ane
from openane.errors import GraphError, UnsupportedError
from openane.graph import Graph

TOLERANCE = 6e-3
"""Absolute and relative: tables are off by up to 5e-3."""
NOISE = 8
"""How much further than the worst of four disturbed references a result may be."""
NEEDS_TWO = ("fill", "range_1d", "non_zero")
"""Operations without an input, as those of compressed weights are: another reads what they make."""


def drawn(seed: int, steps: int, op: str | None = None, *, wide: bool = False) -> Graph:
    """The first graph from `seed` on whose operands fit each other."""
    for attempt in range(seed, seed + 100 * 7919, 7919):
        try:
            return draw_graph(attempt, TABLE, steps, op, wide=wide)
        except GraphError:
            continue
    raise AssertionError(f"no operands of {op} fit")


def drawn_alone(op: str, seed: int, *, wide: bool = False) -> Graph:
    """A graph of one operation, and of one that reads it where it has no input."""
    return drawn(seed, 2 if op in NEEDS_TWO or op.startswith("constexpr") else 1, op, wide=wide)


def hold(graph: Graph, seed: int, arithmetic: str, target: str, *, refused: bool = True) -> bool:
    """Compiles, verifies and runs; results lie as far from the references as small errors in every operation take
    them. Graphs the engine cannot run may be refused where `refused` says so: then False."""
    inputs = draw_inputs(graph, seed)
    try:
        model = ane.compile(graph, target=target, allow_host=False)
    except UnsupportedError:
        assert refused
        return False
    assert {program.chip for program in model.programs} <= {target}
    found = ane.run(model, inputs, f"simulator?arithmetic={arithmetic}")
    for name, (wanted, noise) in spread(graph, inputs).items():
        wide = np.where(np.isfinite(wanted) & (np.abs(wanted.astype(np.float64)) < LIMIT), wanted, np.nan)
        error = np.abs(found[name].astype(np.float64) - wide)
        allowed = TOLERANCE * (1 + np.abs(wide)) + NOISE * noise
        assert found[name].shape == wanted.shape
        assert not (error > allowed).any(), \
            f"{name} of {[node.op for node in graph.nodes]}: off by {np.nanmax(error - allowed)} more than allowed"
        assert not np.isnan(found[name][np.isfinite(wide)].astype(np.float64)).any(), f"{name} is not a number"
    return True
