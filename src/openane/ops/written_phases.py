"""Sines and cosines of a number times several frequencies, as denoisers are told how far they are and rotary embeddings
place what they turn.

The product is a phase of hundreds of turns, of which fp16 keeps an eighth of a turn. What the neural engine adds up has
2^-16 of it: the phase less its whole turns is one sum there, of the number times frequencies in two parts, and of the
turns times those of a turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.graph import Node, Value
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.moment_reading import PlacedGraph
from openane.ops.rewriter import Rewriter
from openane.ops.weights import numbers

PERIODIC = ("cos", "sin")
MOST = 512
"""Frequencies: the sum has weights for each pair of them."""
LARGEST = 2.0 ** 14
"""Of the frequencies: the sums of the engine hold twice that."""
TURN = (6.28125, math.tau - 6.28125)
"""In few bits, such that hundreds of turns are exact, and what is left."""


def written_phases(placed: PlacedGraph, names: set[str]) -> Sequence[Node]:
    """The nodes of the graph, with phases less their whole turns below sines and cosines, where functions are to be
    close."""
    graph = placed.graph
    if graph.metadata.get(FUNCTIONS) != CLOSE:
        return graph.nodes
    nodes: list[Node] = []
    phases: dict[int, Value] = {}
    for node in graph.nodes:
        phase = node["x"] if node.op in PERIODIC else None
        if phase is not None and id(phase) not in phases:
            found = _factors(placed.producers.get(id(phase)), phase.shape, placed)
            made, phases[id(phase)] = ((), phase) if found is None else _reduced(node, phase, names, *found)
            nodes += made
        nodes.append(node if phase is None else replace(node, operands={**node.operands, "x": phases[id(phase)]}))
    return nodes if any(id(value) != key for key, value in phases.items()) else graph.nodes


def _factors(node: Node | None, shape: tuple[int, ...], placed: PlacedGraph) -> tuple[Value, np.ndarray] | None:
    """The numbers, of one column, and the frequencies of a product that has a column for each of these; float64. Single
    constants that it is multiplied by besides are in the frequencies."""
    factor = 1.0
    while node is not None and node.op == "mul":
        number, constant = (node["x"], node["y"]) if node["y"].constant else (node["y"], node["x"])
        if not constant.constant or number.constant:
            return None
        if constant.type.elements == 1 and number.shape == shape:
            factor *= float(numbers(constant).item())
            node = placed.producers.get(id(number))
            continue
        if constant.shape[-1:] != shape[-1:] or number.shape != (*shape[:-1], 1) or \
                not 1 < constant.type.elements == shape[-1] <= MOST:
            return None
        frequencies = numbers(constant).astype(np.float64).reshape(-1) * factor
        return (number, frequencies) if np.abs(frequencies).max() < LARGEST else None
    return None


def _reduced(node: Node, phase: Value, names: set[str], number: Value,
             frequencies: np.ndarray) -> tuple[Sequence[Node], Value]:
    """The nodes that compute a phase within half a turn of 0, or a little more, and it."""
    rewriter = Rewriter(node, names)
    share = frequencies.reshape((1,) * (phase.type.rank - 1) + (-1,)) / math.tau
    turns = rewriter.single("round", x=rewriter.single("mul", x=number, y=share))
    large = frequencies.astype(np.float16)
    small = (frequencies - large).astype(np.float16)
    weight = np.hstack([large[:, None], small[:, None], *(np.eye(len(large)) * -part for part in TURN)])
    parts = rewriter.single("concat", values=(number, number, turns, turns), axis=-1)
    reduced = rewriter.single("linear", x=parts, weight=weight.astype(np.float16))
    return rewriter.made, reduced
