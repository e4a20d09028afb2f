"""Every operation with operands that are constants, the same value twice, or outputs as well: compiled, verified and
run, held to the references, or refused with a sentence."""

from __future__ import annotations

import pytest
from support.constant_operands import unexpected
from support.properties import drawn_alone, hold
from support.random_graphs import draw_inputs
from support.random_operands import TABLE

from openane.chips import DEFAULT_TARGET


@pytest.mark.parametrize("op", sorted(TABLE))
def test_operands_may_be_anything(op: str) -> None:
    graph = drawn_alone(op, 17)
    for _, changed in unexpected(graph, draw_inputs(graph, 17)):
        if changed.outputs:
            hold(changed, 17, "fast", DEFAULT_TARGET)
