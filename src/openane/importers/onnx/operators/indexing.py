"""ONNX operators that pick and place elements. Where they read and write is known when the model is compiled, or
computed while it runs: then the host does it."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.errors import GraphError, UnsupportedError
from openane.graph import Value
from openane.importers.onnx.fold import bounded, slices
from openane.importers.onnx.step import Handler, OnnxStep, Operand

MOST_DIMENSIONS = 5
"""Of a tensor that is moved as it is; a reshape to more is joined with what moves the result."""
SCATTER_MODES = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def _indices(step: OnnxStep, index: int, extent: int) -> Operand:
    """Indices: constant ones counted from the front, or a value. GraphError when a constant is out of range."""
    indices = _looked_up(step, index)
    if isinstance(indices, Value):
        return indices
    if indices.dtype.kind not in "iu" or (indices.size and not (-extent <= indices.min() and indices.max() < extent)):
        raise GraphError(f"{step.label}: indices must be integers from {-extent} to {extent - 1}")
    return np.where(indices < 0, indices + extent, indices).astype(np.int32)


def _looked_up(step: OnnxStep, index: int) -> Operand:
    """Indices as they are given. UnsupportedError for computed ones where the import takes none."""
    return step.number(index) if step.lookups and isinstance(step.operand(index), Value) else step.array(index,
                                                                                                         "indices")


def _slice(step: OnnxStep) -> Operand:
    x = step.value(0)
    kept_of_each = slices(step, x.shape)
    shape = [len(range(*kept.indices(extent))) for kept, extent in zip(kept_of_each, x.shape, strict=True)]
    if 0 in shape:
        return np.zeros(shape, np.float32)
    for axis, kept in enumerate(kept_of_each):
        places = range(*kept.indices(x.shape[axis]))
        rising = places if places.step > 0 else places[::-1]
        if len(places) != x.shape[axis]:
            begin, end, stride = [0] * x.type.rank, list(x.shape), [1] * x.type.rank
            begin[axis], end[axis], stride[axis] = rising[0], rising[-1] + 1, rising.step
            x = step.add("slice_by_index", part=f"axis{axis}", x=x, begin=begin, end=end, stride=stride)
        if places.step < 0:
            x = step.add("reverse", part=f"turned{axis}", x=x, axes=[axis])
    return x


def _gather(step: OnnxStep) -> Operand:
    x = step.number(0)
    axis = step.front(step.integer("axis", 0), x.type.rank)
    indices = _indices(step, 1, x.shape[axis])
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1:])
    bounded(step, shape)
    if len(shape) > MOST_DIMENSIONS and not isinstance(indices, Value):  # as an unfolding is exported
        row = step.add("gather", part="row", x=x, indices=indices.reshape(-1), axis=axis)
        return step.add("reshape", x=row, shape=shape)
    if x.type.rank > MOST_DIMENSIONS and not isinstance(indices, Value) and not indices.ndim:
        along = [place == axis for place in range(x.type.rank)]
        return step.add("slice_by_index", x=x, squeeze_mask=along,
                        begin=[int(indices) if here else 0 for here in along],
                        end=[int(indices) + 1 if here else extent for here, extent in zip(along, x.shape, strict=True)])
    return step.add("gather", x=x, indices=indices, axis=axis)


def _gather_elements(step: OnnxStep) -> Operand:
    """Each dimension but the axis may be shorter in the indices: x is cut to it."""
    x = step.number(0)
    axis = step.front(step.integer("axis", 0), x.type.rank)
    indices = _indices(step, 1, x.shape[axis])
    end = [old if place == axis else new for place, (old, new) in enumerate(zip(x.shape, indices.shape, strict=True))]
    if tuple(end) != x.shape:
        x = step.add("slice_by_index", part="cut", x=x, begin=[0] * len(end), end=end)
    return step.add("gather_along_axis", x=x, indices=indices, axis=axis)


def _places(step: OnnxStep, shape: tuple[int, ...], skipped: int) -> Operand:
    """Index vectors into `shape` behind its first `skipped` dimensions: constant ones counted from the front, or a
    value."""
    indices = _looked_up(step, 1)
    if isinstance(indices, Value):
        return indices
    extents = np.array(shape[skipped:skipped + indices.shape[-1]])
    if indices.dtype.kind not in "iu" or not ((indices >= -extents) & (indices < extents)).all():
        raise GraphError(f"{step.label}: indices must be integers inside {extents.tolist()}")
    return np.where(indices < 0, indices + extents, indices).astype(np.int32)


def _gather_nd(step: OnnxStep) -> Operand:
    x, batch = step.number(0), step.integer("batch_dims", 0)
    places = _places(step, x.shape, batch)
    if isinstance(places, Value) or batch:
        return step.add("gather_nd", x=x, indices=places, batch_dims=batch)
    shape, depth = (*places.shape[:-1], *x.shape[places.shape[-1]:]), places.shape[-1]
    bounded(step, shape)
    grid = outer_product(places)
    if grid is None and max(len(shape), x.type.rank) > MOST_DIMENSIONS:
        rows = step.add("reshape", part="rows", x=x, shape=(prod(x.shape[:depth]), *x.shape[depth:]))
        x, grid = rows, [np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), x.shape[:depth]).reshape(-1)]
    if grid is None:
        return step.add("gather_nd", x=x, indices=places, batch_dims=0)
    for axis, along in enumerate(grid):
        x = step.add("gather", part=f"axis{axis}", x=x, indices=along.astype(np.int32), axis=axis)
    return step.add("reshape", x=x, shape=shape)


def outer_product(places: np.ndarray) -> list[np.ndarray] | None:
    """Index vectors [..., axes] that take everything at the crossings of some places along each axis: those places, a
    vector for each of several axes. None for others, and for a single axis."""
    shape, count = places.shape[:-1], places.shape[-1]
    if count < 2 or not places.size:
        return None
    grid: list[np.ndarray] = []
    behind = len(shape)
    for axis in reversed(range(count)):
        own = places[..., axis]
        begin = 0 if axis == 0 else _first_changing(own, behind)
        along = own[(0,) * begin + (slice(None),) * (behind - begin) + (0,) * (len(shape) - behind)]
        wide = along.reshape((1,) * begin + along.shape + (1,) * (len(shape) - behind))
        if not np.array_equal(own, np.broadcast_to(wide, shape)):
            return None
        grid.insert(0, along.reshape(-1))
        behind = begin
    return grid


def _first_changing(array: np.ndarray, end: int) -> int:
    """The first dimension, before `end`, along which an array is not the same."""
    changing = (d for d in range(end) if array.shape[d] > 1 and not (array == array.take([0], d)).all())
    return next(changing, end)


def _scatter_mode(step: OnnxStep) -> str:
    reduction = step.text("reduction", "none")
    if reduction not in SCATTER_MODES:
        raise step.refuse("reduction", reduction, f"one of {', '.join(SCATTER_MODES)}")
    return SCATTER_MODES[reduction]


def _scatter_elements(step: OnnxStep) -> Operand:
    """As the gather of elements; a smaller part of the data is changed and put back in place."""
    data, updates, mode = step.number(0), step.number(2), _scatter_mode(step)
    axis = step.front(step.integer("axis", 0), data.type.rank)
    indices = _indices(step, 1, data.shape[axis])
    end = [old if place == axis else new
           for place, (old, new) in enumerate(zip(data.shape, indices.shape, strict=True))]
    if tuple(end) == data.shape:
        return step.add("scatter_along_axis", data=data, indices=indices, updates=updates, axis=axis, mode=mode)
    begin = [0] * len(end)
    part = step.add("slice_by_index", part="cut", x=data, begin=begin, end=end)
    changed = step.add("scatter_along_axis", part="changed", data=part, indices=indices, updates=updates, axis=axis,
                       mode=mode)
    return step.add("slice_update", x=data, update=changed, begin=begin, end=end)


def _scatter_nd(step: OnnxStep) -> Operand:
    data = step.number(0)
    return step.add("scatter_nd", data=data, indices=_places(step, data.shape, 0), updates=step.number(2),
                    mode=_scatter_mode(step))


def _one_hot(step: OnnxStep) -> Operand:
    """Compared with a range, so that indices may be computed: those out of range match nothing."""
    depth = int(step.number_in(1, "depth"))
    bounded(step, (depth,))
    indices, values = step.cast(step.number(0), "int32"), step.number(2)
    rank = indices.type.rank + 1
    axis = step.front(step.integer("axis", -1), rank)
    below = step.add("less", part="below", x=indices, y=0)
    raised = step.add_real("add", part="raised", x=indices, y=depth)
    front = step.add("select", part="front", cond=below, a=raised, b=indices)
    shape = [depth if place == axis else 1 for place in range(rank)]
    hot = step.add("equal", part="hot", x=step.add("expand_dims", part="wide", x=front, axes=[axis]),
                   y=np.arange(depth, dtype=np.int32).reshape(shape))
    off, on = (step.add("reshape", part=name, x=step.add("slice_by_index", part=f"{name}.value", x=values,
                                                         begin=[place], end=[place + 1]), shape=(1,) * rank)
               for place, name in enumerate(("off", "on")))
    return step.add("select", cond=hot, a=on, b=off)


def _reverse_sequence(step: OnnxStep) -> Operand:
    x = step.number(0)
    lengths = np.array(step.integers_in(1, "sequence_lens"), np.int32)
    return step.add("reverse_sequence", x=x, lengths=lengths, seq_axis=step.integer("time_axis", 0),
                    batch_axis=step.integer("batch_axis", 1))


def _compress(step: OnnxStep) -> Operand:
    x, chosen = step.number(0), step.array(1, "condition").astype(bool).reshape(-1)
    if "axis" in step.attributes:
        axis = step.front(step.integer("axis", 0), x.type.rank)
    else:
        x, axis = step.add("reshape", part="flat", x=x, shape=(x.type.elements,)), 0
    places = np.flatnonzero(chosen).astype(np.int32)
    if not places.size:
        raise UnsupportedError(step.label, "tensors without elements cannot be computed",
                               found="a condition that is nowhere true", remedy="leave the node out")
    return step.add("gather", x=x, indices=places, axis=axis)


def _tensor_scatter(step: OnnxStep) -> Operand:
    """A cache with updates written from constant positions on, one for each batch."""
    cache, update = step.number(0), step.number(1)
    axis = step.front(step.integer("axis", -2), cache.type.rank)
    mode = step.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise step.refuse("mode", mode, "one of linear, circular")
    batch = cache.shape[0]
    starts = step.integers_in(2, "write_indices") if step.has(2) else (0,) * batch
    length, extent = update.shape[axis], cache.shape[axis]
    rows = []
    for number, start in enumerate(starts):
        places = np.arange(start, start + length)
        places = places % extent if mode == "circular" else places
        row, new = (_row(step, value, number) for value in (cache, update))
        rows.append(_written(step, row, new, places.astype(np.int32), axis))
    return rows[0] if len(rows) == 1 else step.add("concat", values=tuple(rows), axis=0)


def _row(step: OnnxStep, value: Value, number: int) -> Value:
    begin, end = [0] * value.type.rank, list(value.shape)
    begin[0], end[0] = number, number + 1
    return step.add("slice_by_index", part=f"row{number}", x=value, begin=begin, end=end)


def _written(step: OnnxStep, row: Value, new: Value, places: np.ndarray, axis: int) -> Value:
    return step.add("scatter", part="written", data=row, indices=places, updates=new, axis=axis, mode="update")


OPERATORS: Mapping[str, Handler] = {
    "Compress": _compress, "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd,
    "OneHot": _one_hot, "ReverseSequence": _reverse_sequence, "Scatter": _scatter_elements,
    "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd, "Slice": _slice,
    "TensorScatter": _tensor_scatter,
}
