"""Apple's program of a net.plist and ours compute the same, bit for bit, on the same data and weights."""

from __future__ import annotations

import plistlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import corpus_file

import openane as ane
from openane.devices import run
from openane.formats import load_program
from openane.importers.netplist import load_netplist
from openane.program import Program

RANDOM = np.random.default_rng(8)


def read(corpus: Path, name: str) -> dict[str, Any]:
    """A document of the corpus."""
    document: dict[str, Any] = plistlib.loads(corpus_file(corpus, f"apple/netplist/{name}.plist").read_bytes())
    return document


def agree(apple: Program, document: dict[str, Any], weights: bytes = b"", own: bool = False) -> None:
    """Both programs on the same inputs, in both arithmetics; inputs are matched in the order of the file. Where
    `own` is true Apple's program runs on the constants ours packed."""
    stated = document["net"].get("Weights", [])
    graph = load_netplist(document, dict.fromkeys(stated, weights))
    model = ane.compile(graph)
    if own:
        apple = replace(apple, constants=model.program.constants)
    assert [value.name for value in graph.inputs] == [buffer.name for buffer in apple.inputs]
    inputs = {value.name: RANDOM.standard_normal(value.shape).astype(np.float16) for value in graph.inputs}
    for arithmetic in ("fast", "exact"):
        device = f"simulator?arithmetic={arithmetic}"
        (found,) = run(model, inputs, device).values()
        layouts = {buffer.name: buffer.layout.shape for buffer in apple.inputs if buffer.layout is not None}
        (wanted,) = run(apple, {name: x.reshape(layouts[name]) for name, x in inputs.items()}, device).values()
        np.testing.assert_array_equal(found.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize(("program", "name"), [("concat", "concat"), ("sum", "espresso_sum"), ("sigmoid", "neuron")])
def test_networks_without_weights(corpus: Path, program: str, name: str) -> None:
    agree(load_program(corpus / "apple" / "hwx" / f"{program}.hwx"), read(corpus, name))


def test_relu_was_made_from_the_edited_neuron(corpus: Path) -> None:
    document = read(corpus, "neuron")
    document["net"]["my_layer"]["Params"]["Type"] = "ReLU"
    agree(load_program(corpus / "apple" / "hwx" / "relu.hwx"), document)


@pytest.mark.parametrize(("program", "weight"), [("conv", 2.0), ("conv_golden", 3.0)])
def test_convolution(corpus: Path, program: str, weight: float) -> None:
    apple = load_program(corpus / "apple" / "hwx" / f"{program}.hwx")
    agree(apple, read(corpus, "conv"), np.full(9, weight, np.float16).tobytes())


def test_products_on_weights_packed_by_us(corpus: Path) -> None:
    """The program was made when the file still stated one row; its weights are zeros, so ours stand in for them."""
    document = read(corpus, "gemm")
    del document["net"]["image"]["BatchSize"]
    weights = (RANDOM.standard_normal((512, 512)) / 22).astype(np.float16)
    agree(load_program(corpus / "apple" / "hwx" / "gemm.hwx"), document, weights.tobytes(), own=True)
