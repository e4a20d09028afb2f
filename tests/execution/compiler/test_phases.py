"""Sines and cosines of a number times frequencies keep their phase where it is hundreds of turns."""

from __future__ import annotations

import numpy as np
import pytest

import openane as ane
from openane.compiler import compile
from openane.graph import Graph, RoundedArray
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.passes.recognise import recognise

FREQUENCIES = (10000.0 ** (-np.arange(24) / 24)).astype(np.float32)
NUMBERS = np.array([0, 0.25, 3, 77, 500, 951, 999, 2047], np.float16)[:, None]
ERROR = 2.5e-3


def embedding(functions: str = CLOSE, *, also: str = "", column: bool = True, times: float = 1) -> Graph:
    """Sines and cosines of an input times frequencies; `also` is another use of the product."""
    builder = GraphBuilder("embedding", {FUNCTIONS: functions} if functions else {})
    number = builder.input("number", "fp16", NUMBERS.shape if column else (len(NUMBERS), len(FREQUENCIES)))
    frequencies = RoundedArray(FREQUENCIES.astype(np.float16)[None], FREQUENCIES[None])
    phase = builder.single("mul", "phase", x=number, y=frequencies)
    phase = builder.single("mul", "scaled", x=phase, y=times) if times != 1 else phase
    names = ("sin", "cos", also) if also else ("sin", "cos")
    return builder.finish({name: builder.single(name, name, x=phase) for name in names})


@pytest.mark.parametrize("times", [1, 0.3])
def test_hundreds_of_turns(times: float) -> None:
    found = ane.run(compile(embedding(times=times)), {"number": NUMBERS}, "simulator?arithmetic=exact")
    phases = NUMBERS.astype(np.float64) * FREQUENCIES * np.float16(times)
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        assert np.abs(found[name] - function(phases)).max() < ERROR


def test_who_else_reads_the_product_has_it() -> None:
    graph = embedding(also="abs")
    changed = recognise(graph)
    product, phase = ({node.op: node["x"] for node in each.nodes if node.op in ("abs", "cos", "sin")}
                      for each in (graph, changed))
    assert phase["sin"] is phase["cos"]
    assert phase["sin"].name != product["sin"].name
    assert phase["abs"].name == product["abs"].name


@pytest.mark.parametrize("graph", [embedding(""), embedding(column=False)],
                         ids=["functions of one table", "a number for each frequency"])
def test_others_stay_what_they_are(graph: Graph) -> None:
    assert recognise(graph) is graph
