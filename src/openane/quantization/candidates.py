"""What every layer can be stored as: its weight in each form that makes it smaller, rounded by samples where it can be.

Samples are split in two: moments to round by are taken of the first part, which rounding is used is decided on the
other, and errors are measured on that. One sample alone is split by its vectors, and measured on as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from openane.chips.weight_forms import WeightForm
from openane.graph import Graph, Node
from openane.ops.evaluate import evaluate_together
from openane.quantization.calibrating import CALIBRATED, LayerInputs, calibrated
from openane.quantization.forms import StoredWeight, store
from openane.quantization.layers import Layer
from openane.quantization.matrices import Matrices, matrices_of
from openane.quantization.measuring import Sample
from openane.quantization.moments import InputMoments, moments_of

APART = 4
"""One of so many samples is kept apart."""
TOGETHER = 4096
"""Vectors whose products are summed at once."""
Wanted = Callable[[Layer], Sequence[WeightForm]]
Candidates = list[list[StoredWeight]]


@dataclass(frozen=True, slots=True)
class Parts:
    """Samples to round by, and those to decide and measure on: the same one where there is one."""

    fit: Sequence[Sample]
    held: Sequence[Sample]


def parted(samples: Sequence[Sample]) -> Parts:
    """The samples in two parts: every fourth one is kept apart, the last of fewer."""
    if len(samples) < 2:
        return Parts(samples, samples)
    first = min(APART, len(samples)) - 1
    held = samples[first::APART]
    return Parts([sample for place, sample in enumerate(samples) if place % APART != first], held)


def nearest_candidates(layers: Sequence[Layer], wanted: Wanted, zeros: float, packed: bool) -> Candidates:
    """The weight of each layer in the forms wanted, rounded to the nearest, where that makes it smaller."""
    return [_smaller(layer, [store(form, layer.weight.array(), layer.axis, zeros, packed) for form in wanted(layer)])
            for layer in layers]


def calibrated_candidates(graph: Graph, layers: Sequence[Layer], wanted: Wanted, parts: Parts, zeros: float,
                          packed: bool, biases: bool) -> Candidates:
    """The same, rounded such that the layers' results on samples are near. `graph` computes what the layers' graph
    does, with the same constants. Layers that are no matrices, or are given what is not finite, are rounded to the
    nearest."""
    found = _calibrated(graph, [layer for layer in layers if len(layer.nodes) == 1], wanted, parts, packed, biases)
    nearest = nearest_candidates(layers, wanted, zeros, packed)
    return [_smaller(layer, [found.get((id(layer.weight), stored.form), stored) for stored in plain])
            for layer, plain in zip(layers, nearest, strict=True)]


def _calibrated(graph: Graph, layers: Sequence[Layer], wanted: Wanted, parts: Parts, packed: bool, biases: bool
                ) -> dict[tuple[int, WeightForm], StoredWeight]:
    """Weights rounded by samples, by id of the weight and form."""
    known = {id(layer.weight): layer for layer in layers}
    found: dict[tuple[int, WeightForm], StoredWeight] = {}
    samples = [*parts.fit, *(() if parts.held is parts.fit else parts.held)]
    masks = [_mask(sample) for sample in samples]

    def seen(node: Node, several: Sequence[Mapping[int, np.ndarray]]) -> None:
        for layer in (known[id(value)] for value in node.values() if id(value) in known):
            matrices = matrices_of(replace(layer, nodes=(node,)))
            looked = None if matrices is None else _seen(matrices, several, masks, len(parts.fit))
            if matrices is None or looked is None:
                continue
            for form in CALIBRATED.intersection(wanted(layer)):
                found[id(layer.weight), form] = calibrated(form, layer, matrices, looked, packed, biases)

    evaluate_together(graph, samples, seen)
    return found


def _mask(sample: Sample) -> np.ndarray | None:
    """Which places of a sample count: what is not 0 in its only mask (an input with "mask" in its name) of zeros and
    ones. The rest is padding."""
    found = [array.ravel() != 0 for name, array in sample.items() if "mask" in name and np.isin(array, (0, 1)).all()]
    return found[0] if len(found) == 1 and found[0].any() else None


def _vectors(matrices: Matrices, arrays: Mapping[int, np.ndarray], mask: np.ndarray | None) -> np.ndarray:
    """What a layer is given for a sample, without padding where there is a vector for each place."""
    vectors = matrices.vectors(arrays)
    return vectors if mask is None or mask.size != vectors.shape[1] else vectors[:, mask]


def _seen(matrices: Matrices, several: Sequence[Mapping[int, np.ndarray]], masks: Sequence[np.ndarray | None],
          fit: int) -> LayerInputs | None:
    """Moments of what a layer is given, None where that is not finite or too little."""
    if fit == len(several):  # one sample, in two parts
        vectors = _vectors(matrices, several[0], masks[0])
        first = vectors.shape[1] - vectors.shape[1] // APART
        parts = [_moments([vectors[:, :first]]), _moments([vectors[:, first:]])]
    else:
        each = list(zip(several, masks, strict=True))
        parts = [_moments(_vectors(matrices, *pair) for pair in part) for part in (each[:fit], each[fit:])]
    return None if parts[0] is None or parts[1] is None else LayerInputs(parts[0], parts[1])


def _moments(several: Iterable[np.ndarray]) -> InputMoments | None:
    """Moments of vectors, a few thousand at a time."""
    whole: InputMoments | None = None
    waiting: list[np.ndarray] = []
    for vectors in several:
        if not vectors.shape[1] or not np.isfinite(vectors).all():
            return None
        waiting.append(vectors)
        if sum(each.shape[1] for each in waiting) >= TOGETHER:
            whole = _joined(whole, waiting)
            waiting = []
    return _joined(whole, waiting) if waiting else whole


def _joined(whole: InputMoments | None, vectors: Sequence[np.ndarray]) -> InputMoments:
    found = moments_of(np.concatenate(vectors, axis=1))
    return found if whole is None else whole.joined(found)


def _smaller(layer: Layer, candidates: Sequence[StoredWeight]) -> list[StoredWeight]:
    return [stored for stored in candidates if stored.size < layer.size]
