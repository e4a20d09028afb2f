"""Graphs compiled for H14 to H18: verified, computed as for H13, and the same after files and listings of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from support.compiled_programs import SHAPES, graph_of
from support.random_graphs import draw_graph, draw_inputs
from support.random_operands import TABLE

from openane.chips import compiled_generations, get_chip
from openane.compiler import Model, compile
from openane.devices import open_device
from openane.errors import AneError, GraphError
from openane.formats import read_hwx, write_hwx
from openane.formats.listing import assemble, disassemble_bytes
from openane.graph import Graph
from openane.program import Program
from openane.program.verify import violations

FIRST, *LATER = compiled_generations()
STEPS, DRAWN = 3, 10
"""Operations of a random graph, and how many there are."""
ROUNDING = 4e-3
"""Of the largest number: other roundings of 3x3 convolutions, by the Winograd form."""


@cache
def graphs() -> dict[str, Graph]:
    """One of each kind of operation, and random ones that fit an engine program."""
    return {name: graph_of(name) for name in SHAPES} | dict(_drawn())


def _drawn() -> Iterator[tuple[str, Graph]]:
    seed = found = 0
    while found < DRAWN:
        seed += 1
        try:
            graph = draw_graph(seed, TABLE, STEPS)
            expected(graph)
        except (GraphError, AneError):
            continue
        found += 1
        yield f"seed {seed}", graph


def inputs_of(graph: Graph) -> dict[str, np.ndarray]:
    return draw_inputs(graph, 1)


def expected(graph: Graph) -> dict[str, np.ndarray]:
    """What the program for H13 computes."""
    return executed(compile(graph, target=FIRST), graph)


def executed(model: Model, graph: Graph) -> dict[str, np.ndarray]:
    with open_device("simulator") as device, device.load(model) as loaded:
        return dict(loaded.run(inputs_of(graph)))


@pytest.mark.parametrize("target", LATER)
def test_programs_compute_what_those_for_h13_compute(target: str) -> None:
    same = get_chip(target).arithmetic.winograd == get_chip(FIRST).arithmetic.winograd
    for name, graph in graphs().items():
        model = compile(graph, target=target)
        assert all(violations(program) == () for program in model.programs), name
        found = executed(model, graph)
        for output, wanted in reference(name).items():
            if same:
                np.testing.assert_array_equal(found[output], wanted, err_msg=f"{name} {output}")
            else:
                largest = float(np.max(np.abs(wanted.astype(np.float64)), initial=0.0, where=np.isfinite(wanted)))
                np.testing.assert_allclose(found[output].astype(np.float64), wanted.astype(np.float64), rtol=0,
                                           atol=ROUNDING * largest, err_msg=f"{name} {output}")


@cache
def reference(name: str) -> dict[str, np.ndarray]:
    return expected(graphs()[name])


@pytest.mark.parametrize("target", LATER)
def test_files_and_listings_hold_the_same_programs(target: str) -> None:
    for name, graph in graphs().items():
        for program in compile(graph, target=target).programs:
            data = write_hwx(program)
            again = read_hwx(data)
            assert same_program(again, program), name
            assert write_hwx(again) == data, name
            listing = disassemble_bytes(data)
            assert listing.undescribed == 0, name
            assert assemble(listing.text, lambda _, listing=listing: listing.sidecar) == data, name


def same_program(found: Program, program: Program) -> bool:
    """Words, constants, slots and sizes: a file knows nothing of how far constants' zeros go on."""
    def slots(given: Program) -> dict[str, tuple[int, int]]:
        return {buffer.name: (buffer.slot, buffer.size) for buffer in given.buffers}

    return (found.chip, found.tasks, slots(found)) == (program.chip, program.tasks, slots(program)) and \
        all(bytes(found.constants_of(slot)).rstrip(b"\0") == bytes(program.constants_of(slot)).rstrip(b"\0")
            for slot in program.constant_ranges)
