"""as_strided: elements of a tensor's memory at an offset and steps, which PyTorch writes for views in another order.

Shapes are static, so it is made of what the engine moves: the tensor in the order of its memory, cut and reshaped once
for every dimension, longest steps first; then the dimensions in the order that was asked for. Steps of 0 repeat, and
where elements are in several places at once (windows) the parts are cut apart and joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.errors import UnsupportedError
from openane.graph import Value
from openane.importers.torch.step import Handler, Result, TorchStep

MOST_PARTS = 64
"""Parts that are cut apart for one dimension whose elements overlap."""
Dimension = tuple[int, int]
"""Extent and step."""


def _as_strided(step: TorchStep) -> Result:
    x, sizes, strides = step.value("self"), step.integers("size"), step.integers("stride")
    offset = step.argument("storage_offset")
    memory = _in_memory(step, x)
    moving = [axis for axis in range(len(sizes)) if sizes[axis] > 1 and strides[axis] > 0]
    order = sorted(moving, key=lambda axis: -strides[axis])
    start = step.offset if offset is None else int(offset)
    last = start + sum((sizes[axis] - 1) * strides[axis] for axis in order)
    if last >= memory.type.elements:
        raise UnsupportedError(step.label, "its elements must lie in the tensor's own memory",
                               limit=memory.type.elements, found=last + 1, remedy="call .contiguous() before")
    found = _strided(step, memory, start, [(sizes[axis], strides[axis]) for axis in order])
    if order != moving:
        found = step.add("transpose", x=found, perm=[order.index(axis) for axis in moving])
    return _repeated(step, found, sizes, moving)


def _repeated(step: TorchStep, x: Value, sizes: Sequence[int], moving: Sequence[int]) -> Value:
    """The dimensions that move among those whose step is 0, which repeat."""
    ranked = step.reshaped(x, [size if axis in moving else 1 for axis, size in enumerate(sizes)])
    repeats = [1 if axis in moving else size for axis, size in enumerate(sizes)]
    return ranked if set(repeats) <= {1} else step.add("tile", x=ranked, reps=repeats)


def _in_memory(step: TorchStep, x: Value) -> Value:
    """A tensor's elements as they lie in memory. UnsupportedError where there are gaps between them."""
    places = [axis for axis in range(x.type.rank) if x.shape[axis] > 1]
    order = sorted(places, key=lambda axis: -step.strides[axis])
    wanted = [prod(x.shape[axis] for axis in order[number + 1:]) for number in range(len(order))]
    if [step.strides[axis] for axis in order] != wanted:
        raise UnsupportedError(step.label, "the tensor must fill its memory without gaps",
                               found=f"shape {list(x.shape)}, strides {list(step.strides)}",
                               remedy="call .contiguous() before")
    if order != places:
        x = step.add("transpose", x=x, perm=[*(axis for axis in range(x.type.rank) if axis not in places), *order])
    return step.reshaped(x, (x.type.elements,))


def _strided(step: TorchStep, x: Value, start: int, dimensions: Sequence[Dimension]) -> Value:
    """The elements of a vector from `start` on, by extents and falling steps."""
    if not dimensions:
        return _part(step, x, start, 1)
    (count, stride), rest = dimensions[0], dimensions[1:]
    inner = 1 + sum((extent - 1) * other for extent, other in rest)
    if inner > stride:
        return _overlapping(step, x, start, dimensions)
    missing = start + count * stride - x.type.elements
    if missing > 0:
        zeros = step.filled((missing,), 0, np.float16 if x.dtype.startswith("fp") else np.int32)
        x = step.add("concat", values=(x, step.builder.constant(zeros)), axis=0)
    rows = step.reshaped(_part(step, x, start, count * stride), (count, stride))
    return _inside(step, rows, rest)


def _inside(step: TorchStep, rows: Value, dimensions: Sequence[Dimension]) -> Value:
    """As `_strided`, from the beginning of the last dimension of `rows`, for all dimensions before it."""
    *front, length = rows.shape
    if not dimensions:
        return step.reshaped(_columns(step, rows, 1), front)
    (count, stride), rest = dimensions[0], dimensions[1:]
    inner = 1 + sum((extent - 1) * other for extent, other in rest)
    whole = count * stride
    if inner > stride or whole > length:
        parts = [_inside(step, _columns(step, rows, length - number * stride, number * stride), rest)
                 for number in range(_few(step, count))]
        return step.add("stack", values=tuple(parts), axis=len(front))
    return _inside(step, step.reshaped(_columns(step, rows, whole), (*front, count, stride)), rest)


def _overlapping(step: TorchStep, x: Value, start: int, dimensions: Sequence[Dimension]) -> Value:
    """The first dimension part by part."""
    (count, stride), rest = dimensions[0], dimensions[1:]
    parts = [_strided(step, x, start + number * stride, rest) for number in range(_few(step, count))]
    return step.add("stack", values=tuple(parts), axis=0)


def _few(step: TorchStep, count: int) -> int:
    if count > MOST_PARTS:
        raise UnsupportedError(step.label, "a dimension whose elements overlap has few of them", limit=MOST_PARTS,
                               found=count, remedy="write it with torch.nn.functional.unfold, or as a convolution")
    return count


def _part(step: TorchStep, x: Value, start: int, count: int) -> Value:
    if (start, count) == (0, x.type.elements):
        return x
    return step.add("slice_by_index", x=x, begin=[start], end=[start + count])


def _columns(step: TorchStep, rows: Value, count: int, start: int = 0) -> Value:
    if (start, count) == (0, rows.shape[-1]):
        return rows
    front = rows.shape[:-1]
    return step.add("slice_by_index", x=rows, begin=[*(0 for _ in front), start], end=[*front, start + count])


OPERATORS: Mapping[str, Handler] = {"as_strided": _as_strided, "as_strided_copy": _as_strided}
