"""Every operation, alone and in small random graphs of all of them: compiled, verified, run, held to the references.

Every operation alone runs for H13 and one of the other generations, random graphs for all; `benchmarks/properties.py`
runs as many of both as one likes for each.
"""

from __future__ import annotations

import pytest
from support.properties import drawn, drawn_alone, hold
from support.random_graphs import uncovered
from support.random_operands import ELSEWHERE, TABLE

import openane as ane
from openane.chips import DEFAULT_TARGET, compiled_generations
from openane.errors import UnsupportedError

REFUSED = {"one_hot": "Indices must be constants"}
OTHERS = tuple(name for name in compiled_generations() if name != DEFAULT_TARGET)
OTHER = {op: OTHERS[place % len(OTHERS)] for place, op in enumerate(sorted(TABLE))}
"""The other generation that an operation is compiled for alone."""


def test_no_operation_is_left_out() -> None:
    assert uncovered(TABLE) == sorted(ELSEWHERE)
    assert set(OTHER.values()) == set(OTHERS)


def check_alone(op: str, target: str, seed: int, arithmetic: str) -> None:
    graph = drawn_alone(op, seed)
    if op in REFUSED:
        with pytest.raises(UnsupportedError, match=REFUSED[op]):
            ane.compile(graph, target=target, allow_host=False)
    else:
        hold(graph, 1, arithmetic, target, refused=False)


@pytest.mark.parametrize("op", sorted(TABLE))
def test_alone(op: str) -> None:
    check_alone(op, DEFAULT_TARGET, 17, "exact")


@pytest.mark.parametrize("op", sorted(TABLE))
def test_alone_on_another_generation(op: str) -> None:
    check_alone(op, OTHER[op], 17, "fast")


@pytest.mark.parametrize("seed", range(30))
def test_together(seed: int) -> None:
    hold(drawn(1000 * seed, 2 + seed % 3), seed, "fast", DEFAULT_TARGET)


@pytest.mark.parametrize("seed", range(30))
def test_together_on_another_generation(seed: int) -> None:
    hold(drawn(1000 * (30 + seed), 2 + seed % 3), seed, "fast", OTHERS[seed % len(OTHERS)])
