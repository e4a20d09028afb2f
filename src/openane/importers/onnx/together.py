"""Constants of few numbers, made all at once: calling numpy takes longer than their numbers do, and a model has
hundreds of such constants. Those that fp16 does not hold are left to who makes one at a time, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from openane.graph import RoundedArray
from openane.importers.onnx.nodes import StatedNode
from openane.ops.half_bits import LEAST, half_and_finite, to_half
from openane.ops.halves import halves_finite
from openane.record_classes import dataclass

NORM, EPSILON = "BatchNormalization", 1e-5
"""The operator whose statistics are constants, and what it adds to a variance where the node does not say."""
_FLOAT = 1
"""Type of an attribute that is a real number."""
STATISTICS = slice(1, 5)
"""Inputs of a batch norm that are its scale, its offset, the mean and the variance."""
NormKey = tuple[int, ...]


@dataclass(slots=True)
class NormConstants:
    """What a batch norm by a constant mean and variance is by a variance of 1: x less `mean`, times `gain`, and
    `shift` more. `of` are the arrays it was made of, and the number that is added to the variance."""

    mean: RoundedArray
    gain: RoundedArray
    shift: RoundedArray
    ones: np.ndarray
    of: tuple[Sequence[np.ndarray], float] = ((), 0.0)


def norms_together(nodes: Iterable[StatedNode], known: Mapping[str, object]) -> dict[NormKey, NormConstants]:
    """Constants of the batch norms whose statistics are known, by the ids of these."""
    found: dict[NormKey, tuple[list[np.ndarray], float]] = {}
    for node in nodes:
        if node.kind == NORM:
            arrays = [known.get(name) for name in node.inputs[STATISTICS]]
            statistics = [array for array in arrays if isinstance(array, np.ndarray) and array.dtype == np.float32]
            if len(statistics) == len(arrays) == 4 and len({array.shape for array in statistics}) == 1:
                found[tuple(map(id, arrays))] = statistics, _epsilon(node)
    return dict(zip(found, _norms(list(found.values())), strict=False)) if found else {}


def _epsilon(node: StatedNode) -> float:
    stated = [each.f for each in node.attributes if each.name == "epsilon" and each.type == _FLOAT]
    return stated[-1] if stated else EPSILON


def _norms(of: Sequence[tuple[list[np.ndarray], float]]) -> list[NormConstants]:
    """As many as there are statistics; none where a variance is not positive, or fp16 does not hold a number."""
    scale, offset, mean, variance = (np.concatenate([arrays[place] for arrays, _ in of], axis=None, dtype=np.float64)
                                     for place in range(4))
    sizes = [arrays[0].size for arrays, _ in of]
    with np.errstate(all="ignore"):
        root = np.sqrt(variance + np.repeat([epsilon for _, epsilon in of], sizes))
        table = np.array([mean, scale / root, offset])
    halves, ones = to_half(table), np.ones(root.shape, np.float16)
    if not root.min(initial=1) > 0 or not halves_finite(halves):
        return []
    digits, made, start = table.astype(np.float32), list[NormConstants](), 0
    for given, end in zip(of, accumulate(sizes), strict=True):
        part = slice(start, end)
        centre, gain, shift = map(RoundedArray, halves[:, part], digits[:, part])
        made.append(NormConstants(centre, gain, shift, ones[part], given))
        start = end
    return made


def halves_together(arrays: Iterable[object]) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """What those of the arrays are in fp16 that have few numbers, in float32 and in a row, by the id of the array that
    these are seen in, which has no others; with that."""
    few = dict[int, np.ndarray]()
    for array in arrays:
        if isinstance(array, np.ndarray) and 0 < array.size < LEAST:
            whole = seen_in(array)
            if whole is not None:
                few[id(whole)] = whole
    if not few:
        return {}
    halves, finite = half_and_finite(np.concatenate(list(few.values()), axis=None))
    ends = accumulate(array.size for array in few.values())
    return {key: (array, halves[end - array.size:end])
            for (key, array), end in zip(few.items(), ends, strict=True)} if finite else {}


def seen_in(array: np.ndarray) -> np.ndarray | None:
    """The array in which this one is another shape of all numbers, or itself, in float32; None where it is part of one,
    or has them in another order."""
    whole = array if array.base is None else array.base
    same = isinstance(whole, np.ndarray) and whole.dtype == array.dtype == np.float32 and whole.size == array.size
    return whole if same and array.flags.c_contiguous and whole.flags.c_contiguous else None
