"""Arrays that know of which constant they hold the elements: the tag by which lowering finds its constants again.

A constant is handed to the lowering of a node as a `ConstantArray`. Slices, transposes, reshapes and copies of one keep
its `origin`; what is computed from it has other memory, which no origin speaks of.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from openane.compiler.weights.layout_records import WeightView
from openane.graph import Value
from openane.record_classes import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """Memory that holds elements of a constant. `order` says which lie there one behind the other, counted as the
    constant's own lie in memory; None of the constant itself."""

    value: Value
    memory: np.ndarray
    order: WeightView | None = None

    def elements(self, array: np.ndarray) -> WeightView | None:
        """Which elements of the constant an array in this memory is; None where it is not there, or not at even
        distances, or was written over."""
        places = _places(self.memory, array)
        if places is None or self.order is None:
            return places
        found = self.order.through(places)
        data = self.value.array()
        return found if found is not None and np.array_equal(found.of(data.ravel("K")), array, equal_nan=True) else None


class ConstantArray(np.ndarray):
    """Elements of a constant, or something computed from them; `origin` says of which where it is the former."""

    origin: Origin | None = None

    @staticmethod
    def of(value: Value) -> ConstantArray:
        """All elements of a constant, without a copy."""
        data = value.array()
        seen = data.view(ConstantArray)
        seen.origin = Origin(value, data) if _filled(data) else None
        return seen

    def __array_finalize__(self, parent: Any) -> None:
        """Called by numpy for every array made of another one: what is seen of it has its origin."""
        self.origin = getattr(parent, "origin", None)

    def copy(self, order: Literal["K", "A", "C", "F"] | None = "C") -> ConstantArray:
        """As numpy's; the copy holds the same elements of the same constant."""
        made = super().copy(order)
        found = None if self.origin is None else self.origin.elements(self)
        made.origin = None
        if self.origin is not None and found is not None:
            axes = sorted(range(made.ndim), key=lambda axis: -made.strides[axis])
            lying = WeightView(found.offset, tuple(found.shape[axis] for axis in axes),
                               tuple(found.strides[axis] for axis in axes))
            made.origin = Origin(self.origin.value, made.view(np.ndarray), lying)
        return made


def elements(array: np.ndarray) -> tuple[Value, WeightView] | None:
    """The constant whose elements an array is, and which, counted as they lie in memory; None where it is none."""
    seen: object = array
    while isinstance(seen, np.ndarray) and not isinstance(seen, ConstantArray):
        seen = seen.base
    if not isinstance(seen, ConstantArray) or seen.origin is None:
        return None
    found = seen.origin.elements(array)
    return None if found is None else (seen.origin.value, found)


def _places(memory: np.ndarray, array: np.ndarray) -> WeightView | None:
    """Where an array lies in other memory that has no gaps, in elements; None where it does not."""
    if memory.dtype != array.dtype or not memory.size or not array.size:
        return None
    size, first = memory.itemsize, address(array) - address(memory)
    last = first + sum((extent - 1) * step for extent, step in zip(array.shape, array.strides, strict=True))
    odd = first % size or any(step % size or step < 0 for step in array.strides)
    if first < 0 or last + size > memory.nbytes or odd:
        return None
    return WeightView(first // size, array.shape, tuple(step // size for step in array.strides))


def _filled(data: np.ndarray) -> bool:
    """Whether an array's elements lie one behind the other in memory, in the order of some of its dimensions."""
    if data.flags.c_contiguous or data.flags.f_contiguous:
        return True
    steps = sorted((step, extent) for step, extent in zip(data.strides, data.shape, strict=True) if extent > 1)
    known = data.itemsize
    for step, extent in steps:
        if step != known:
            return False
        known *= extent
    return True


def address(array: np.ndarray) -> int:
    """Where an array's first element lies in memory."""
    return int(array.__array_interface__["data"][0])
