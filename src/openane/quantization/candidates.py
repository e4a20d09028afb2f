"""What every layer can be stored as: its weight in each form that makes it smaller, rounded by samples where it can be.

Samples are split in two: moments to round by are taken of the first part, which rounding is used is decided on the
other, and errors are measured on that. One sample alone is split by its vectors, and measured on as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.graph import Graph, Node
from openane.ops.evaluate import evaluate_together
from openane.quantization.calibrating import CALIBRATED, calibrated
from openane.quantization.forms import StoredWeight, Storing, store
from openane.quantization.layers import Layer
from openane.quantization.looking import LayerInputs, Parts, counted, inputs_seen
from openane.quantization.matrices import Matrices, matrices_of

Wanted = Callable[[Layer], Sequence[WeightForm]]
Candidates = list[list[StoredWeight]]


def nearest_candidates(layers: Sequence[Layer], wanted: Wanted, how: Storing) -> Candidates:
    """The weight of each layer in the forms wanted, rounded to the nearest, where that makes it smaller."""
    return [_smaller(layer, [store(form, layer.weight.array(), layer.axis, how) for form in wanted(layer)])
            for layer in layers]


def calibrated_candidates(graph: Graph, layers: Sequence[Layer], wanted: Wanted, parts: Parts, how: Storing,
                          biases: bool) -> Candidates:
    """The same, rounded such that the layers' results on samples are near. `graph` computes what the layers' graph
    does, with the same constants. Layers that are no matrices, or are given what is not finite, are rounded to the
    nearest."""
    found = _calibrated(graph, [layer for layer in layers if len(layer.nodes) == 1], wanted, parts, how, biases)
    nearest = nearest_candidates(layers, wanted, how)
    return [_smaller(layer, [found.get((id(layer.weight), stored.form), stored) for stored in plain])
            for layer, plain in zip(layers, nearest, strict=True)]


def _calibrated(graph: Graph, layers: Sequence[Layer], wanted: Wanted, parts: Parts, how: Storing, biases: bool
                ) -> dict[tuple[int, WeightForm], StoredWeight]:
    """Weights rounded by samples, by id of the weight and form."""
    known = {id(layer.weight): layer for layer in layers}
    found: dict[tuple[int, WeightForm], StoredWeight] = {}

    def seen(node: Node, several: Sequence[Mapping[int, np.ndarray]]) -> None:
        for layer in (known[id(value)] for value in node.values() if id(value) in known):
            matrices = matrices_of(replace(layer, nodes=(node,)))
            looked = None if matrices is None else _seen(matrices, several, parts)
            if matrices is None or looked is None:
                continue
            for form in CALIBRATED.intersection(wanted(layer)):
                found[id(layer.weight), form] = calibrated(form, layer, matrices, looked, how, biases)

    evaluate_together(graph, parts.all, seen)
    return found


def _seen(matrices: Matrices, several: Sequence[Mapping[int, np.ndarray]], parts: Parts) -> LayerInputs | None:
    samples = parts.all
    return inputs_seen(lambda place: (counted(samples[place], matrices.vectors(several[place])), None), parts)


def _smaller(layer: Layer, candidates: Sequence[StoredWeight]) -> list[StoredWeight]:
    return [stored for stored in candidates if stored.size < layer.size]
