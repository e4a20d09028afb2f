"""Every operation, alone and in small random graphs of all of them: compiled, verified, run, held to the references."""

from __future__ import annotations

import numpy as np
import pytest
from support.one_operation import drawn, graph_of
from support.random_graphs import LIMIT, draw_inputs, spread, uncovered
from support.random_operands import ELSEWHERE, TABLE

import openane as ane
from openane.errors import UnsupportedError
from openane.graph import Graph

TOLERANCE = 6e-3
"""Absolute and relative: tables are off by up to 5e-3."""
NOISE = 8
"""How much further than the worst of four disturbed references a result may be."""
REFUSED = {"one_hot": "Indices must be constants"}


def hold(graph: Graph, seed: int, arithmetic: str, *, refused: bool = True) -> None:
    """Compiles, verifies and runs; results lie as far from the references as small errors in every operation take
    them. Graphs the engine cannot run may be refused where `refused` says so."""
    inputs = draw_inputs(graph, seed)
    try:
        model = ane.compile(graph)
    except UnsupportedError:
        assert refused
        return
    found = ane.run(model, inputs, f"simulator?arithmetic={arithmetic}")
    for name, (wanted, noise) in spread(graph, inputs).items():
        wide = np.where(np.isfinite(wanted) & (np.abs(wanted.astype(np.float64)) < LIMIT), wanted, np.nan)
        error = np.abs(found[name].astype(np.float64) - wide)
        allowed = TOLERANCE * (1 + np.abs(wide)) + NOISE * noise
        assert found[name].shape == wanted.shape
        assert not (error > allowed).any(), \
            f"{name} of {[node.op for node in graph.nodes]}: off by {np.nanmax(error - allowed)} more than allowed"
        assert not np.isnan(found[name][np.isfinite(wide)].astype(np.float64)).any(), f"{name} is not a number"


def test_no_operation_is_left_out() -> None:
    assert uncovered(TABLE) == sorted(ELSEWHERE)


@pytest.mark.parametrize("op", sorted(TABLE))
def test_alone(op: str) -> None:
    graph = graph_of(op)
    if op in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[op]):
            ane.compile(graph)
    else:
        hold(graph, 1, "exact", refused=False)


@pytest.mark.parametrize("seed", range(30))
def test_together(seed: int) -> None:
    hold(drawn(1000 * seed, 2 + seed % 3), seed, "fast")
