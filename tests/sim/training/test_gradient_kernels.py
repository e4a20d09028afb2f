"""The programs of a training step on a Llama-style layer: each one engine program, and together its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from support.stories import KERNELS, Layer, block, measured

import openane as ane
from openane.ops.evaluate import evaluate
from openane.training.gradient import gradient

SMALL = Layer(width=48, heads=3, sequence=16, hidden=80)
GRAPHS = {**KERNELS, "block": block}


def draws(graph, seed=1):
    rng = np.random.default_rng(seed)
    return {value.name: rng.uniform(-1, 1, value.shape).astype(np.float16) for value in graph.inputs}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_small_layer_on_the_simulator(name):
    graph = GRAPHS[name](SMALL)
    model = ane.compile(graph)
    assert len(model.programs) == 1
    assert not model.host_operations
    inputs = draws(graph)
    found, wanted = ane.run(model, inputs), evaluate(graph, inputs)
    for key, expected in wanted.items():
        assert np.abs(found[key] - expected).max() <= 1e-2 * max(1, np.abs(expected).max()), key


@pytest.mark.parametrize("name", GRAPHS)
def test_the_layer_of_stories110m_is_one_program_each(name):
    model = ane.compile(GRAPHS[name](Layer()))
    assert len(model.programs) == 1
    assert not model.host_operations


def test_the_kernels_together_are_the_gradient():
    rng = np.random.default_rng(2)
    shape = (1, SMALL.width, 1, SMALL.sequence)
    x, given = (rng.uniform(-1, 1, shape).astype(np.float16) for _ in range(2))

    def run(name, **inputs):
        graph = KERNELS[name](SMALL)
        return evaluate(graph, {value.name: inputs[value.name] for value in graph.inputs})

    def expected(part, normal):
        joint = gradient(measured(SMALL, part), "loss", ["normal"])
        return evaluate(joint, {"normal": normal, "given": given})["gradient_normal"]

    taps = run("forward feed-forward", x=x)
    made = run("backward feed-forward", d_feed=given, **taps)["d_normal"]
    assert np.allclose(made, expected("feed", taps["normal"]), atol=1e-4)
    taps = run("forward attention", x=x)
    halfway = run("backward attention, values", d_attention=given, **taps)
    scores = run("backward attention, scores", **taps, **halfway)
    made = run("backward projections", **scores, **halfway)["d_normal"]
    assert np.allclose(made, expected("attention", taps["normal"]), atol=1e-4)
