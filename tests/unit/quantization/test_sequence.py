"""Layers rounded one after another: each makes good for what those before it lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import openane as ane
from openane.chips.weight_forms import WeightForm
from openane.graph import Graph, Node
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import Pair, evaluate, evaluate_beside
from openane.quantization import api
from openane.quantization.candidates import calibrated_candidates
from openane.quantization.forms import Storing
from openane.quantization.layers import layers_of
from openane.quantization.looking import parted
from openane.quantization.measuring import output_errors, outputs_of
from openane.quantization.rewrite import with_stored

WIDTH = 48
RANDOM = np.random.default_rng(3)


def weight(*shape: int) -> np.ndarray:
    return (RANDOM.standard_normal(shape) * shape[-1] ** -0.5).astype(np.float16)


def encoder() -> Graph:
    """Three blocks of two layers that are added to what they read, and a convolution with a residual of its own."""
    b = GraphBuilder("encoder")
    x = b.input("x", "fp16", (1, 32, WIDTH))
    for number in range(3):
        hidden = b.single("linear", f"up{number}", x=x, weight=weight(2 * WIDTH, WIDTH), bias=weight(2 * WIDTH))
        hidden = b.single("gelu", x=hidden, mode="EXACT")
        down = b.single("linear", f"down{number}", x=hidden, weight=weight(WIDTH, 2 * WIDTH), bias=weight(WIDTH))
        x = b.single("layer_norm", x=b.single("add", x=x, y=down), axes=[-1], epsilon=1e-5)
    image = b.single("reshape", x=b.single("transpose", x=x, perm=(0, 2, 1)), shape=(1, WIDTH, 8, 4))
    mixed = b.single("conv", "mixed", x=image, weight=weight(WIDTH, WIDTH, 1, 1), bias=weight(WIDTH))
    return b.finish({"y": b.single("add", x=mixed, y=image)})


def samples(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Vectors that mostly lie in a few directions."""
    rng = np.random.default_rng(seed)
    directions = np.random.default_rng(9).standard_normal((WIDTH, WIDTH)) * np.logspace(0, -1.5, WIDTH)[:, None]
    return [{"x": (rng.standard_normal((1, 32, WIDTH)) @ directions).astype(np.float16)} for _ in range(count)]


@pytest.mark.parametrize("form", ["int8", "int8-blocks", "int8-offsets", "int8-columns", "palette4"])
def test_outputs_on_other_samples_err_less_than_of_layers_rounded_apart(form: str) -> None:
    graph, several, others = encoder(), samples(40, 0), samples(10, 1)
    wanted = outputs_of(graph, others)
    told: list[tuple[int, int]] = []
    made = ane.quantize(graph, form, samples=several, told=lambda *numbers: told.append(numbers)).graph
    layers = layers_of(graph)
    each = calibrated_candidates(graph, layers, lambda layer: [WeightForm(form)], parted(several), Storing(), True)
    apart = with_stored(graph, [(layer, stored) for layer, [stored] in zip(layers, each, strict=True)])
    together, alone = (output_errors(outputs_of(each, others), wanted)["y"] for each in (made, apart))
    assert together < 0.9 * alone
    assert told == [(number + 1, 7) for number in range(7)]


@pytest.mark.parametrize("limit", [0.003, 0.02])
def test_what_layers_make_good_for_lets_more_of_them_be_small(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, several = encoder(), samples(40, 0)
    found = ane.quantize(graph, "auto", samples=several, max_error=limit)
    monkeypatch.setattr(api, "within", lambda limit, choose_for, *others: choose_for(limit))
    apart = ane.quantize(graph, "auto", samples=several, max_error=limit)
    assert max(found.error or 1, apart.error or 1) <= limit
    assert found.after < 0.97 * apart.after


def test_weights_found_on_short_inputs_serve_long_ones() -> None:
    """Of a graph with the same weights."""
    b = GraphBuilder("short")
    held = b.constant(weight(64, WIDTH), "held")
    graph = b.finish({"y": b.single("linear", "one", x=b.input("x", "fp16", (4, WIDTH)), weight=held)})
    [layer] = ane.quantize(graph, "int8").layers
    assert layer.stored is not None
    long = GraphBuilder("long")
    held = long.constant(layer.weight.array(), "held")
    other = long.finish({"y": long.single("linear", "one", x=long.input("x", "fp16", (9, WIDTH)), weight=held)})
    made = with_stored(other, [(layers_of(other)[0], layer.stored)])
    x = np.ones((9, WIDTH), np.float16)
    assert np.allclose(evaluate(made, {"x": x})["y"][0], x[0].astype(np.float32) @ layer.stored.array.T, atol=0.02)


def test_nodes_that_read_the_same_and_stay_are_computed_once() -> None:
    graph = encoder()
    changed: list[str] = []

    def half(node: Node, pairs: Sequence[Pair]) -> Node:
        """The last linear layer without its bias."""
        shared = all(pair[0].get(id(value)) is pair[1].get(id(value)) for pair in pairs for value in node.values()
                     if not value.constant)
        changed.append(f"{node.name} {'same' if shared else 'other'}")
        kept = {name: operand for name, operand in node.operands.items() if name != "bias"}
        return replace(node, operands=kept) if node.name == "down2" else node

    evaluate_beside(graph, samples(2, 0), half)
    assert changed[0] == "up0 same"
    assert "down2 same" in changed
    assert changed[-1].endswith("other")
