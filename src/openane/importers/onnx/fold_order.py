"""Constants in order: TopK of what is known, equal numbers by their place, as runtimes have them."""

from __future__ import annotations

import numpy as np

from openane.errors import GraphError
from openane.importers.onnx.step import OnnxStep


def top_k(step: OnnxStep) -> tuple[np.ndarray, np.ndarray]:
    """The k largest, or smallest, numbers along an axis, and their places (int64). GraphError for a k there is not."""
    x = step.array(0, "input 0")
    count = step.integer("k", 1) if step.version < 10 else int(step.number_in(1, "k"))
    axis = step.front(step.integer("axis", -1), x.ndim)
    if not 0 <= count <= x.shape[axis]:
        raise GraphError(f"{step.label}: k must be 0..{x.shape[axis]}; found {count}")
    step.folding.take(step.label, 2 * x.nbytes)
    if step.integer("largest", 1):
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    places = np.take(order, np.arange(count), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)
