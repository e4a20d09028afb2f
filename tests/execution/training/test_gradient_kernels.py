"""The example's training kernels: one program each, and one after another the gradient of a Llama-style layer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import openane as ane
from openane.graph import Graph
from openane.ops.evaluate import evaluate

FOLDER = Path(__file__).parents[3] / "examples" / "stories"
NAMES = ("forward attention", "forward feed-forward", "backward feed-forward", "backward attention, values",
         "backward attention, scores", "backward projections", "block")
SIZES = {"width": 48, "heads": 3, "sequence": 16, "hidden": 80}
FORMS = pytest.mark.parametrize("packed", [True, False], ids=["packed", "separate"])
Arrays = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The example's module of graphs."""
    sys.path.insert(0, str(FOLDER))
    try:
        module = __import__("layer")
    finally:
        sys.path.remove(str(FOLDER))
    yield module
    sys.modules.pop("layer", None)


def graph_of(example: ModuleType, name: str, packed: bool, **sizes: int) -> Graph:
    """A kernel's graph, or the block's."""
    made: Graph = {**example.KERNELS, "block": example.block}[name](example.Layer(**sizes), packed)
    return made


@FORMS
@pytest.mark.parametrize("name", NAMES)
def test_a_small_layer_on_the_simulator(example: ModuleType, name: str, packed: bool) -> None:
    graph = graph_of(example, name, packed, **SIZES)
    model = ane.compile(graph)
    assert len(model.programs) == 1
    assert not model.host_operations
    assert not packed or (len(graph.inputs), len(graph.outputs)) == (1, 1)
    rng = np.random.default_rng(1)
    inputs = {value.name: rng.uniform(-1, 1, value.shape).astype(np.float16) for value in graph.inputs}
    found, wanted = ane.run(model, inputs), evaluate(graph, inputs)
    for key, expected in wanted.items():
        assert np.abs(found[key] - expected).max() <= 1e-2 * max(1, np.abs(expected).max()), key


@FORMS
@pytest.mark.parametrize("name", NAMES)
def test_the_layer_of_stories110m_is_one_program_each(example: ModuleType, name: str, packed: bool) -> None:
    model = ane.compile(graph_of(example, name, packed))
    assert len(model.programs) == 1
    assert not model.host_operations


@pytest.mark.needs("torch")
@FORMS
def test_the_kernels_together_are_the_gradient(example: ModuleType, packed: bool) -> None:
    import torch

    rng = np.random.default_rng(2)
    shape = (1, SIZES["width"], 1, SIZES["sequence"])
    x, given = (rng.uniform(-1, 1, shape).astype(np.float16) for _ in range(2))

    feed = run(example, "forward feed-forward", packed, {"x": x})
    made = run(example, "backward feed-forward", packed, {**feed, "d_feed": given})["d_normal"]
    assert close(made, by_torch(torch, example, "feed", feed["normal"], given))

    attention = run(example, "forward attention", packed, {"x": x})
    values = run(example, "backward attention, values", packed, {**attention, "d_attention": given})
    scores = run(example, "backward attention, scores", packed, {**attention, **values})
    made = run(example, "backward projections", packed, {**scores, **values})["d_normal"]
    assert close(made, by_torch(torch, example, "attention", attention["normal"], given))


def run(example: ModuleType, name: str, packed: bool, parts: Arrays) -> Arrays:
    """A kernel's outputs by part on the simulator, from the parts it reads."""
    layer, separate = example.Layer(**SIZES), graph_of(example, name, False, **SIZES)
    reads, gives = ([value.name for value in side] for side in (separate.inputs, separate.outputs))
    inputs = {part: parts[part] for part in reads}
    if not packed:
        return ane.run(ane.compile(separate), inputs)
    graph = graph_of(example, name, True, **SIZES)
    whole = np.concatenate([inputs[part] for part in reads], axis=1)
    result, = ane.run(ane.compile(graph), {graph.inputs[0].name: whole}).values()
    widths = [value.shape[1] for value in separate.outputs]
    assert result.shape == (1, sum(widths), 1, layer.sequence)
    return dict(zip(gives, np.split(result, np.cumsum(widths)[:-1], axis=1), strict=True))


def close(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether a gradient agrees to what fp16 and the engine's tables leave of it."""
    return bool(np.linalg.norm(found.astype(np.float64) - wanted) <= 1e-2 * np.linalg.norm(wanted))


def by_torch(torch: ModuleType, example: ModuleType, part: str, normal: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The gradient of a part's normalised activations in float64, by PyTorch."""
    layer = example.Layer(**SIZES)
    weights = {name: torch.tensor(array.astype(np.float64)) for name, array in layer.weights.items()}
    start = torch.tensor(normal[0, :, 0].T.astype(np.float64), requires_grad=True)  # [sequence, width]
    functional = torch.nn.functional
    if part == "feed":
        gate = functional.silu(start @ weights["w1"].T) * (start @ weights["w3"].T)
        result = gate @ weights["w2"].T
    else:
        heads = [(start @ weights[f"w{name}"].T).reshape(layer.sequence, layer.heads, -1).transpose(0, 1)
                 for name in "qkv"]
        context = functional.scaled_dot_product_attention(*heads, is_causal=True)
        result = context.transpose(0, 1).reshape(layer.sequence, -1) @ weights["wo"].T
    result.backward(torch.tensor(given[0, :, 0].T.astype(np.float64)))
    gradient: np.ndarray = start.grad.numpy().T[None, :, None]
    return gradient
