"""Layers rounded one after another, each aiming at what the model has as it is, from what those before it now give.

Both models run beside each other on the samples. Where a layer is given something else than it was, the part of the
difference that goes with its inputs is made good by its weight, before this is rounded. A layer whose result is only
added to something that is there already (a residual connection) makes good for what that lacks too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.graph import Graph, Node, Value, substituted, with_data
from openane.ops import get_op
from openane.ops.evaluate import Pair, evaluate_beside
from openane.quantization.calibrating import CALIBRATED, calibrated
from openane.quantization.forms import StoredWeight, Storing, store
from openane.quantization.layers import Layer
from openane.quantization.looking import LayerInputs, Parts, counted, inputs_seen
from openane.quantization.matrices import Matrices, matrices_of
from openane.quantization.rewrite import with_bias

Told = Callable[[int, int], None]
"""Told of how many layers are done, and of how many there are."""


def in_sequence(graph: Graph, layers: Sequence[Layer], forms: Sequence[WeightForm | None], parts: Parts, how: Storing,
                biases: bool, told: Told) -> list[StoredWeight | None]:
    """The weight of each layer in its form, None where it has none, or that makes it no smaller. `graph` computes what
    the layers' graph does, with the same constants. Layers that are no matrices, or are given what is not finite, are
    rounded to the nearest."""
    wanted = {id(layer.weight): (layer, form) for layer, form in zip(layers, forms, strict=True) if form is not None}
    rounding = _Rounding(graph, wanted, parts, how, biases, told)
    evaluate_beside(graph, parts.all, rounding.changed)
    return [rounding.stored.get(id(layer.weight)) for layer in layers]


class _Rounding:
    """What is known while a model is gone through: `stored` by id of the weight, None where it stays."""

    def __init__(self, graph: Graph, wanted: Mapping[int, tuple[Layer, WeightForm]], parts: Parts, how: Storing,
                 biases: bool, told: Told) -> None:
        self.wanted, self.parts, self.samples = wanted, parts, parts.all
        self.how, self.biases, self.told = how, biases, told
        self.stored: dict[int, StoredWeight | None] = {}
        self.ends = _ends(graph)

    def changed(self, node: Node, pairs: Sequence[Pair]) -> Node:
        """The node with its weights in their form; those that it is the first to read are rounded now."""
        weights = [value for value in node.values() if id(value) in self.wanted]
        for value in weights:
            if id(value) not in self.stored:
                layer, form = self.wanted[id(value)]
                rounded = self._rounded(layer, form, pairs)
                self.stored[id(value)] = rounded if rounded.size < layer.size else None
                self.told(len(self.stored), len(self.wanted))
        made = {id(value): stored for value in weights if (stored := self.stored[id(value)]) is not None}
        if not made:
            return node
        biases = {key: stored.bias for key, stored in made.items() if stored.bias is not None}
        return substituted(with_bias(node, biases), {key: with_data(self.wanted[key][0].weight, stored.array)
                                                     for key, stored in made.items()})

    def _rounded(self, layer: Layer, form: WeightForm, pairs: Sequence[Pair]) -> StoredWeight:
        matrices = matrices_of(layer) if form in CALIBRATED else None
        seen = None if matrices is None else self._seen(layer, matrices, pairs)
        if matrices is None or seen is None:
            return store(form, layer.weight.array(), layer.axis, self.how)
        return calibrated(form, layer, matrices, seen, self.how, self.biases)

    def _seen(self, layer: Layer, matrices: Matrices, pairs: Sequence[Pair]) -> LayerInputs | None:
        rows = matrices.rows(layer.weight.array()).astype(np.float32).swapaxes(1, 2)
        other = self._added_to(matrices.node, pairs[0])

        def look(place: int) -> tuple[np.ndarray, np.ndarray]:
            sample, (plain, now) = self.samples[place], pairs[place]
            vectors = counted(sample, matrices.vectors(now))
            with np.errstate(all="ignore"):
                missing = np.matmul(counted(sample, matrices.vectors(plain)) - vectors, rows)
                if other is not None:
                    missing += counted(sample, matrices.results(plain[id(other)] - now[id(other)]))
            return vectors, missing

        return inputs_seen(look, self.parts)

    def _added_to(self, node: Node, pair: Pair) -> Value | None:
        """What a node's result is added to, where it is used for nothing else, and that is known already."""
        [result] = node.outputs
        end = self.ends.get(id(result))
        arithmetic = None if end is None else get_op(end.op).arithmetic
        if end is None or arithmetic is None or arithmetic.function is not np.add:
            return None
        others = [value for value in end.values() if value is not result]
        known = len(others) == 1 and id(others[0]) in pair[1] and others[0].shape == result.shape
        return others[0] if known else None


def _ends(graph: Graph) -> dict[int, Node]:
    """The node that alone reads a value, once, by the value's id."""
    readers: dict[int, list[Node]] = {id(value): [] for value in graph.outputs}
    outputs = frozenset(readers)
    for node in graph.nodes:
        for value in node.values():
            readers.setdefault(id(value), []).append(node)
    return {key: nodes[0] for key, nodes in readers.items() if len(nodes) == 1 and key not in outputs}
