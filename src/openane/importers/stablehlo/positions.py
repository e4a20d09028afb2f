"""Where the elements of StableHLO's gather and scatter lie, when the positions they are given are known."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.importers.stablehlo.step import StableStep
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of a tensor of `shape`: how many elements they have of every axis, which axes are left out of them (1
    element each), which axis each number of a position is for, which axes go along with axes of the positions, and
    the axis of the positions in which the numbers of one lie."""

    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    left_out: tuple[int, ...]
    mapped: tuple[int, ...]
    batched: tuple[int, ...]
    batched_places: tuple[int, ...]
    vector: int

    @property
    def axes(self) -> list[int]:
        """The axes windows have in what is gathered or scattered."""
        return [axis for axis in range(len(self.shape)) if axis not in (*self.left_out, *self.batched)]

    @property
    def of_one_axis(self) -> bool:
        """Whether they are whole slices at positions along one axis."""
        along = self.mapped[0] if len(self.mapped) == 1 and not self.batched else -1
        return along >= 0 and self.left_out in ((), self.mapped) and self.sizes == tuple(
            1 if axis == along else extent for axis, extent in enumerate(self.shape))


def windows(step: StableStep, numbers: Any, names: Sequence[str], sizes: Sequence[int] | None) -> Windows:
    """What a gather or scatter states, its lists under `names`: left out, mapped, batched, batched places. Without
    `sizes` they are those of `updates` (operand 2), whose window axes are stated as well. GraphError where they do not
    fit each other."""
    stated = numbers if isinstance(numbers, dict) else {}
    left_out, mapped, batched, places = (tuple(stated.get(name, [])) for name in names)
    shape = step.operand(0).shape
    if sizes is None:
        spread = iter(step.operand(2).shape[axis] for axis in stated.get("update_window_dims", []))
        sizes = [1 if axis in (*left_out, *batched) else next(spread, 1) for axis in range(len(shape))]
    found = Windows(shape, tuple(sizes), left_out, mapped, batched, places, int(stated.get("index_vector_dim", 0)))
    if len(found.sizes) != len(shape) or len(batched) != len(places) or \
            any(not 0 <= axis < len(shape) for axis in (*left_out, *mapped, *batched)) or \
            not 0 <= found.vector <= len(step.operand(1).shape):
        raise GraphError(f"{step.label}: its numbers of dimensions do not fit {list(shape)}")
    return found


def elements(step: StableStep, window: Windows, places: np.ndarray, offsets: Sequence[int], clipped: bool) -> \
        np.ndarray:
    """The position, in x as one list, of every element of the windows: window axes at `offsets`, the others as the
    positions have them. Windows that reach outside are moved inside where `clipped`, and -1 otherwise."""
    rows = np.moveaxis(places, window.vector, -1) if window.vector < places.ndim else places[..., None]
    spread = rows.shape[:-1]
    kept = window.axes
    step.take([*spread, *(window.sizes[axis] for axis in kept)], 8)
    starts = np.zeros((*spread, len(window.shape)), np.int64)
    starts[..., list(window.mapped)] = rows
    for axis, at in zip(window.batched, window.batched_places, strict=True):
        at -= at > window.vector
        starts[..., axis] = np.arange(spread[at]).reshape([-1 if d == at else 1 for d in range(len(spread))])
    last = np.array(window.shape) - np.array(window.sizes)
    inside = ((starts >= 0) & (starts <= last)).all(-1)
    starts = np.clip(starts, 0, np.maximum(last, 0))
    strides = np.array([prod(window.shape[axis + 1:]) for axis in range(len(window.shape))], np.int64)
    within = np.zeros((), np.int64)
    for axis in kept:
        within = within[..., None] + np.arange(window.sizes[axis]) * strides[axis]
    total = (starts @ strides).reshape(*spread, *(1,) * len(kept)) + within
    if not clipped:
        total = np.where(inside.reshape(*spread, *(1,) * len(kept)), total, -1)
    rank = total.ndim
    others = [axis for axis in range(rank) if axis not in offsets]
    order = [others.index(axis) if axis in others else len(others) + list(offsets).index(axis) for axis in range(rank)]
    return total.transpose(order)
