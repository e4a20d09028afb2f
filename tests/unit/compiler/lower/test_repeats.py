"""Nodes that are lowered as others were become what they would have become by themselves."""

from dataclasses import replace

import numpy as np
import pytest
from support.random_graphs import draw_graph
from support.random_operands import TABLE

from openane.chips import compiled_generations, get_chip
from openane.compiler.lower.builder import lower
from openane.compiler.lower.repeats import LoweredNodes, Repeats, kept
from openane.errors import UnsupportedError
from openane.graph import Value
from openane.ops.build import GraphBuilder
from openane.passes.order import simplify

SEEDS = 14


def told(lowered):
    """All that a graph was lowered to, by the places of nodes and values in it."""
    nodes = {id(node): number for number, node in enumerate(lowered.graph.nodes)}
    values = {id(value): number for number, value in
              enumerate(value for node in lowered.graph.nodes for value in node.outputs)}
    return (repr(lowered.operations), [nodes.get(id(each.node)) for each in lowered.emitted],
            dict(lowered.blocks), bytes(lowered.constants), lowered.kernel_starts,
            {nodes[key]: node.label for key, node in lowered.fused.items()},
            {values[key]: tensor for key, tensor in lowered.tensors.items()},
            {nodes[key]: repr(pieces) for key, pieces in lowered.traced.items()})


def fresh(graph, chip):
    kept().clear()
    return told(lower(graph, chip))


def others(graph, seed):
    """The graph with other numbers in its constants of real numbers."""
    rng, made = np.random.default_rng(seed), {}

    def other(value):
        data = value.data
        if not isinstance(data, np.ndarray) or data.dtype.kind != "f" or data.size < 2:
            return value
        if id(value) not in made:
            numbers = np.empty_like(data)
            numbers[...] = rng.uniform(0.25, 1, data.shape)
            made[id(value)] = Value(value.name, value.type, numbers)
        return made[id(value)]

    nodes = [replace(node, operands={name: tuple(map(other, operand)) if isinstance(operand, tuple) else other(operand)
                                     for name, operand in node.operands.items()}) for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes))


@pytest.mark.parametrize("target", compiled_generations())
def test_random_graphs_are_lowered_as_they_are_alone(target):
    chip, compared = get_chip(target), 0
    for seed in range(SEEDS):
        graph = simplify(draw_graph(seed, TABLE, 4))
        try:
            expected = fresh(graph, chip)
            changed = fresh(others(graph, seed), chip)
        except UnsupportedError:
            continue
        assert told(lower(graph, chip)) == expected  # after another with other numbers
        assert told(lower(others(graph, seed), chip)) == changed
        compared += 1
    assert compared > SEEDS // 3


def layers(count, rows=24, width=32, seed=0):
    """Linear layers, norms, functions and attention, the same again and again with other weights."""
    rng, builder = np.random.default_rng(seed), GraphBuilder()

    def weights(*shape):
        return rng.uniform(-0.2, 0.2, shape).astype(np.float16)

    x = builder.input("x", "fp16", (1, rows, width))
    for _ in range(count):
        normal = builder.single("layer_norm", x=x, axes=[-1], gamma=weights(width), beta=weights(width), epsilon=1e-5)
        left, right = (builder.single("linear", x=normal, weight=weights(width, width), bias=weights(width))
                       for _ in range(2))
        scores = builder.single("softmax", x=builder.single("matmul", x=left, y=right, transpose_y=True), axis=-1)
        mixed = builder.single("matmul", x=scores, y=normal)
        wide = builder.single("relu", x=builder.single("linear", x=mixed, weight=weights(2 * width, width)))
        x = builder.single("add", x=x, y=builder.single("linear", x=wide, weight=weights(width, 2 * width)))
    return simplify(builder.finish({"y": x}))


def lowered_anew(graph, chip, monkeypatch):
    """How many nodes ask for their own lowering."""
    count = []
    real = Repeats.before
    with monkeypatch.context() as patch:
        patch.setattr(Repeats, "before", lambda self, here: count.append(1) or real(self, here))
        lower(graph, chip)
    return len(count)


def test_layers_are_lowered_once(monkeypatch):
    chip = get_chip("h13")
    kept().clear()
    few = lowered_anew(layers(4), chip, monkeypatch)
    kept().clear()
    assert lowered_anew(layers(8), chip, monkeypatch) == few
    assert lowered_anew(layers(8, seed=1), chip, monkeypatch) == 0
    assert told(lower(layers(8, seed=1), chip)) == fresh(layers(8, seed=1), chip)


def test_what_differs_is_lowered_by_itself(monkeypatch):
    chip = get_chip("h13")
    kept().clear()
    whole = lowered_anew(layers(1), chip, monkeypatch)
    assert lowered_anew(layers(1, rows=25), chip, monkeypatch) == whole
    assert lowered_anew(layers(1), get_chip("h16"), monkeypatch) == whole


def constant_factor(numbers):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 8, 8))
    y = builder.single("batch_norm", x=x, mean=np.zeros(4, np.float16), variance=np.ones(4, np.float16),
                       gamma=np.array(numbers, np.float16), beta=np.zeros(4, np.float16), epsilon=0.0)
    return builder.finish({"y": y})


def test_numbers_that_decide_are_compared_bit_by_bit():
    chip = get_chip("h13")
    for numbers in ((1, 1, 1, 1), (1, 2, 3, 4), (0.0, 1, 1, 1), (-0.0, 1, 1, 1)):
        lower(constant_factor(numbers), chip)
        found = told(lower(constant_factor(numbers), chip))
        assert found == fresh(constant_factor(numbers), chip)


def test_what_is_kept_has_bounds(monkeypatch):
    small = LoweredNodes(most=12)
    monkeypatch.setattr("openane.compiler.lower.repeats.kept", lambda: small)
    chip = get_chip("h13")
    expected = fresh(layers(3), chip)
    for _ in range(3):
        assert told(lower(layers(3), chip)) == expected
        assert small.held <= 12
    small.clear()
    assert small.held == 0
