"""A network, a block, a training step and an encoder on every generation: verified, accurate, and the bits of H13
wherever the arithmetic is the same. The benchmark itself runs them all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from generations import Cell, cells, chosen, judged, names, text
from per_generation.case import WatchedDevice
from support.blocks import bottleneck

from openane.chips import compiled_generations, get_chip
from openane.compiler import compile
from openane.program import Program

TARGETS = compiled_generations()
FIRST = TARGETS[0]


@pytest.mark.parametrize("name", ["networks/squeezenet", "blocks/residual", "training/digits_recompile",
                                  "language/bert"])
def test_every_generation_computes_what_the_first_computes(name: str) -> None:
    found = list(cells(name, TARGETS, "auto"))
    assert [cell.target for cell in found] == list(TARGETS)
    assert [cell.lacks for cell in found] == [""] * len(TARGETS)
    assert all(cell.tasks and cell.cosine is not None and cell.cosine >= 0.999 for cell in found)
    for cell in found:
        if not get_chip(cell.target).arithmetic.winograd:
            assert cell.equal


def made(target: str, tasks: int = 3, cosine: float | None = 1.0) -> Cell:
    return Cell("blocks/one", target, 1, tasks, cosine)


def test_what_falls_short_is_said() -> None:
    outputs = {"y": np.array([1, 2, 4], np.float16)}
    first = made(FIRST), outputs
    other = {"y": np.array([1, 2, 4.004], np.float16)}
    assert judged(made("h14"), outputs, first, [], 0.999).lacks == ""
    assert judged(made("h14"), outputs, first, ["rule 1"], 0.999).lacks == "rule 1"
    assert "bits are not those of h13" in judged(made("h14"), other, first, [], 0.999).lacks
    assert "cosine to float32 is 0.5" in judged(made("h14", cosine=0.5), outputs, first, [], 0.999).lacks
    assert "cosine to float32 is nan" in judged(made("h14", cosine=float("nan")), outputs, first, [], 0.999).lacks
    far = judged(made("h17"), {"y": np.array([4, 1, 2], np.float16)}, first, [], None)
    assert "the cosine to h13" in far.lacks
    near = judged(made("h17"), other, first, [], 0.999)
    assert not near.lacks
    assert not near.equal
    assert near.difference == pytest.approx(0.004 / 4, rel=0.1)
    assert text(near, first[0]) == "1e-03 1.000000"
    assert text(replace(near, tasks=5, lacks="refused: why"), first[0]) == "!refused"


def test_an_infinity_on_one_side_is_a_difference() -> None:
    first = made(FIRST), {"y": np.array([1, np.inf], np.float16)}
    found = judged(made("h17"), {"y": np.array([1, 2], np.float16)}, first, [], None)
    assert found.difference == np.inf
    assert found.lacks


def test_broken_rules_are_counted_and_do_not_end_the_run() -> None:
    program = compile(bottleneck()).program
    words = list(program.tasks[1].words)
    words[0] ^= 0xFFFF  # the number of the task
    broken = replace(program, tasks=(program.tasks[0], replace(program.tasks[1], words=tuple(words)),
                                     *program.tasks[2:]))
    assert isinstance(broken, Program)
    with WatchedDevice("fast") as device:
        device.check(broken)
        assert device.tasks == len(program.tasks)
        assert device.broken


def test_large_models_are_chosen_by_their_names_alone() -> None:
    everything = names()
    assert "language/stories110m" in everything
    assert "language/stories110m" not in chosen(["language"])
    assert chosen(["language/stories110m"]) == ["language/stories110m"]
    assert not any(name.startswith("graphs/") for name in chosen([]))
    assert chosen(["graphs/relu", "blocks/bottle*"]) == ["blocks/bottleneck", "graphs/relu"]
