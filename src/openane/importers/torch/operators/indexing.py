"""PyTorch operators that read and write elements by position: lists of indices, scattering, parts put into a whole.

Positions known now become gathers with constant indices, reshapes where they name every element in order, and choices
between two tensors where elements are written. Positions computed at run time are read by `gather` (the host looks them
up) and written by comparing them with every position there is, which the engine does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.masks import FARTHEST
from openane.importers.torch.step import Handler, Result, TorchStep, to_array

SHORT = 512
"""Elements of an axis among which the engine takes some by comparing positions."""
MOST_TURNS = 16
"""How often a position may be added to."""

Positions = list[tuple[int, Any]]
"""Axes in order, each with its list of indices: an array, or a value computed at run time."""


def _look_up(step: TorchStep) -> Result:
    """Rows of a table: embedding(weight, indices)."""
    return step.add("gather", x=step.value("weight"), indices=step.value("indices"), axis=0)


def _index_select(step: TorchStep) -> Result:
    x = step.value("self")
    return step.add("gather", x=x, indices=step.value("index"), axis=step.axis("dim", x.type.rank))


def _positions(step: TorchStep, shape: Sequence[int]) -> Positions:
    """The lists of indices by axis; masks that are known become numbers."""
    found: Positions = []
    axis = 0
    for each in step.argument("indices"):
        if each is None or isinstance(each, Value):
            found += [] if each is None else [(axis, each)]
            axis += 1
            continue
        array = to_array(each, step.label)
        if array.dtype.kind == "b":
            found += [(axis + i, places) for i, places in enumerate(np.nonzero(array))]
            axis += array.ndim
        else:
            found.append((axis, array % shape[axis]))
            axis += 1
    return found


def _index(step: TorchStep) -> Result:
    """x[..., indices, ..., indices, ...]: lists of indices broadcast, and stand for one axis of all their elements."""
    x = step.value("self")
    used = _positions(step, x.shape)
    if any(isinstance(each, Value) and each.dtype == "bool" for _, each in used):
        raise step.refuse("indices", "a mask", "numbers, or torch.where: the count would depend on the data")
    if len(used) == 1 and isinstance(used[0][1], Value):
        return step.add("gather", x=x, indices=used[0][1], axis=used[0][0])
    joined, axis, extents = _joined(step, x, [d for d, _ in used])
    flat = _flat(step, used, extents)
    if isinstance(flat, np.ndarray) and np.array_equal(flat.ravel(), np.arange(joined.shape[axis])):
        return step.reshaped(joined, step.shape)
    wide = prod(flat.shape)
    found = step.add("gather", part="taken", x=joined, axis=axis, indices=flat.reshape(wide)
                     if isinstance(flat, np.ndarray) else step.reshaped(flat, (wide,), "flat"))
    return step.reshaped(found, step.shape)


def _joined(step: TorchStep, x: Value, axes: Sequence[int]) -> tuple[Value, int, list[int]]:
    """x with some axes made one, that one, and their extents. Neighbours stay where they are, others come first."""
    extents = [x.shape[d] for d in axes]
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [d for d in range(x.type.rank) if d not in axes]
    order = [*rest[:first], *axes, *rest[first:]]
    if order != sorted(order):
        x = step.add("transpose", part="ordered", x=x, perm=order)
    shape = [*x.shape[:first], prod(extents), *x.shape[first + len(axes):]]
    return step.reshaped(x, shape, "joined"), first, extents


def _flat(step: TorchStep, used: Positions, extents: Sequence[int]) -> Any:
    """The position in the joined axis: an array, or a value where a list is computed at run time."""
    strides = [prod(extents[i + 1:]) for i in range(len(extents))]
    known = sum((each.astype(np.int64) * stride for (_, each), stride in zip(used, strides, strict=True)
                 if not isinstance(each, Value)), np.zeros((), np.int64))
    computed = [(each, stride) for (_, each), stride in zip(used, strides, strict=True) if isinstance(each, Value)]
    if not computed:
        return known.astype(np.int32)
    total: Any = None
    for i, (each, stride) in enumerate(computed):
        part = each if stride == 1 else step.add("mul", part=f"stride{i}", x=each, y=np.int32(stride))
        total = part if total is None else step.add("add", part=f"sum{i}", x=total, y=part)
    return total if not known.any() and np.broadcast_shapes(known.shape, total.shape) == total.shape else \
        step.add("add", part="positions", x=total, y=known.astype(np.int32))


def _index_put(step: TorchStep) -> Result:
    """self with `values` at the positions the lists name, or added there."""
    x, values = (step.number(name, FARTHEST) for name in ("self", "values"))
    used = _positions(step, x.shape)
    adds = bool(step.argument("accumulate", False))
    if len(used) == 1 and isinstance(used[0][1], Value):
        axis, places = used[0]
        if places.dtype != "bool":
            return _written(step, x, axis, places, values, adds)
        if values.type.elements != 1 or adds:
            raise step.refuse("indices", "a mask", "one number that is assigned, or torch.where")
        mask = step.reshaped(places, (*places.shape, *(1,) * (x.type.rank - places.type.rank - axis)), "mask")
        return step.add("select", cond=mask, a=step.reshaped(values, (), "number"), b=x)
    if any(isinstance(each, Value) for _, each in used):
        raise step.refuse("indices", "several lists, computed", "one list that is computed, or lists that are constant")
    joined, axis, extents = _joined(step, x, [d for d, _ in used])
    flat = _flat(step, used, extents)
    shape = (*joined.shape[:axis], *flat.shape, *joined.shape[axis + 1:])
    spread = step.spread(values, shape)
    source = step.reshaped(spread, (*joined.shape[:axis], flat.size, *joined.shape[axis + 1:]), "source")
    result = _placed(step, joined, axis, flat.ravel(), source, adds)
    return _restored(step, result, x, [d for d, _ in used])


def _restored(step: TorchStep, result: Value, x: Value, axes: Sequence[int]) -> Value:
    """Undoes `_joined`."""
    first = axes[0] if list(axes) == list(range(axes[0], axes[-1] + 1)) else 0
    rest = [d for d in range(x.type.rank) if d not in axes]
    order = [*rest[:first], *axes, *rest[first:]]
    whole = step.reshaped(result, [x.shape[d] for d in order], "apart")
    return whole if order == sorted(order) else step.add("transpose", x=whole, perm=np.argsort(order).tolist())


def _placed(step: TorchStep, x: Value, axis: int, places: np.ndarray, source: Value, adds: bool) -> Value:
    """x with slices of `source` at known places of an axis, the last one where several name the same."""
    extent = x.shape[axis]
    if adds and len(set(places.tolist())) != len(places):
        return _added(step, x, axis, places, source)
    origin = np.zeros(extent, np.int32)
    origin[places] = np.arange(len(places), dtype=np.int32)
    mask = np.isin(np.arange(extent), places)
    if not mask.any():
        return x
    moved = source if np.array_equal(origin, np.arange(len(places))) else \
        step.add("gather", part="moved", x=source, indices=origin, axis=axis)
    if mask.all() and not adds:
        return moved
    cond = mask.reshape([extent if d == axis else 1 for d in range(x.type.rank)])
    if adds:
        zeros = step.builder.constant(np.zeros((), moved.array().dtype if moved.constant else
                                               np.float16 if moved.dtype == "fp16" else np.int32))
        moved = step.add("select", part="part", cond=cond, a=moved, b=zeros)
        return step.add("add", part="sum", x=x, y=moved)
    return step.add("select", part="chosen", cond=cond, a=moved, b=x)


def _added(step: TorchStep, x: Value, axis: int, places: np.ndarray, source: Value) -> Value:
    """x plus slices at places that repeat: first all that come first at their place, then all that come second ..."""
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], places[order])
    turn = np.empty(len(places), np.int64)
    turn[order] = np.arange(len(places)) - first
    if turn.max() >= MOST_TURNS:
        raise step.refuse("accumulate", f"a position that is named {turn.max() + 1} times",
                          f"at most {MOST_TURNS} times, or a product with a constant matrix")
    for each in range(int(turn.max()) + 1):
        chosen = np.flatnonzero(turn == each)
        part = step.add("gather", part=f"turn{each}", x=source, indices=chosen.astype(np.int32), axis=axis)
        x = _placed(step, x, axis, places[chosen], part, True)
    return x


def hits_of(step: TorchStep, index: Value, extent: int) -> Value:
    """For every index (in a new last axis) whether it names each of `extent` positions, as numbers of fp16."""
    column = step.reshaped(index, (*index.shape, 1), "column")
    same = step.add("equal", part="same", x=column, y=np.arange(extent, dtype=np.int32))
    return step.cast(same, "fp16", "hits")


def _written(step: TorchStep, x: Value, axis: int, places: Value, values: Value, adds: bool) -> Value:
    """x with slices of `values` at places of an axis computed at run time, which are all different."""
    if step.kind != "float":
        raise step.refuse("self", "whole numbers", "floating point: positions are computed when the model runs")
    count, extent = places.type.elements, x.shape[axis]
    rest = [*x.shape[:axis], *x.shape[axis + 1:]]
    full = step.spread(values, (*x.shape[:axis], *places.shape, *x.shape[axis + 1:]))
    order = [axis, *(d for d in range(x.type.rank) if d != axis)]
    source = step.reshaped(full, (*x.shape[:axis], count, *x.shape[axis + 1:]), "source")
    rows = step.reshaped(step.add("transpose", part="rows", x=source, perm=order), (count, prod(rest)), "flat")
    hits = hits_of(step, step.reshaped(places, (count,), "places"), extent)
    written = step.add("matmul", part="written", x=hits, y=rows, transpose_x=True)
    back = step.add("transpose", part="back", x=step.reshaped(written, (extent, *rest), "parts"),
                    perm=np.argsort(order).tolist())
    if adds:
        return step.add("add", x=x, y=back)
    taken = step.add("reduce_max", part="taken", x=hits, axes=[0], keep_dims=False)
    cond = step.cast(step.reshaped(taken, [extent if d == axis else 1 for d in range(x.type.rank)], "mask"), "bool")
    return step.add("select", cond=cond, a=back, b=x)


def _scatter(step: TorchStep) -> Result:
    """self with `src` or `value` at index[...] of an axis, or added there (scatter_add)."""
    x, axis, index = step.number("self", FARTHEST), step.axis("dim", len(step.shape)), step.value("index")
    if step.argument("reduce") not in (None, "add", "sum"):
        raise step.refuse("reduce", step.argument("reduce"), "none, or add")
    if not index.shape or any(d != axis and index.shape[d] != extent for d, extent in enumerate(x.shape)):
        raise step.refuse("index", list(index.shape), f"the shape of self {list(x.shape)}, axis {axis} apart")
    hits = hits_of(step, moved_last(step, index, axis, "index"), x.shape[axis])
    written = _scattered(step, hits, axis, index.shape)
    if step.op == "scatter_add" or step.given("reduce"):
        if not isinstance(written, Value):
            count = step.matched(_over_indices(step, "reduce_sum", hits, axis, "count"), step.kind)
            written = step.add("mul", part="counted", x=count, y=written)
        return step.add("add", x=x, y=written)
    cond = step.cast(_over_indices(step, "reduce_max", hits, axis, "taken"), "bool")
    return step.add("select", cond=cond, a=written, b=x)


def moved_last(step: TorchStep, value: Value, axis: int, part: str) -> Value:
    """The value with an axis behind the others."""
    order = [*(d for d in range(value.type.rank) if d != axis), axis]
    return value if axis == value.type.rank - 1 else step.add("transpose", part=part, x=value, perm=order)


def _over_indices(step: TorchStep, op: str, hits: Value, axis: int, part: str) -> Value:
    """What is known of every index and position reduced to what is known of every position, which is put back."""
    rank = hits.type.rank - 1
    result = step.add(op, part=f"{part}_last", x=hits, axes=[rank - 1], keep_dims=False)
    back = np.argsort([*(d for d in range(rank) if d != axis), axis]).tolist()
    return result if axis == rank - 1 else step.add("transpose", part=part, x=result, perm=back)


def _scattered(step: TorchStep, hits: Value, axis: int, shape: Sequence[int]) -> Value | np.ndarray:
    """What is written at every position: the number, or the elements of `src` that positions are given."""
    given = step.argument("value", step.argument("src"))
    if isinstance(given, int | float):
        dtype = {"float": np.float16, "int": np.int32, "bool": np.bool_}[step.kind]
        return np.asarray(np.clip(given, -FARTHEST, FARTHEST), dtype)
    source = step.as_value(given, "src", FARTHEST)
    if source.shape != tuple(shape):
        source = step.add("slice_by_index", part="part", x=source, begin=[0] * len(shape), end=list(shape))
    turned = step.cast(moved_last(step, source, axis, "source"), "fp16")
    spread = step.add("mul", part="spread", x=hits, y=step.reshaped(turned, (*turned.shape, 1), "values"))
    return step.matched(_over_indices(step, "reduce_sum", spread, axis, "written"), step.kind)


def _slice_scatter(step: TorchStep) -> Result:
    """self with `src` in place of a slice."""
    x, source = (step.number(name, FARTHEST) for name in ("self", "src"))
    axis, stride = step.axis("dim", x.type.rank), int(step.argument("step", 1))
    places = np.arange(x.shape[axis])[slice(step.argument("start"), step.argument("end"), stride)]
    return _put(step, x, axis, places, source)


def _select_scatter(step: TorchStep) -> Result:
    """self with `src` in place of one element of an axis."""
    x, axis = step.number("self", FARTHEST), step.axis("dim", len(step.shape))
    shape = [1 if d == axis else extent for d, extent in enumerate(x.shape)]
    source = step.reshaped(step.number("src", FARTHEST), shape, "whole")
    return _put(step, x, axis, np.array([int(step.argument("index")) % x.shape[axis]]), source)


def _put(step: TorchStep, x: Value, axis: int, places: np.ndarray, source: Value) -> Value:
    """Ranges are joined with what is left of x before and behind; others are chosen element by element."""
    if not len(places):
        return x
    if len(places) > 1 and (np.diff(places) != 1).any():
        return _placed(step, x, axis, places, source, False)
    first, end = int(places[0]), int(places[-1]) + 1
    parts = [source]
    if first:
        parts = [_range(step, x, axis, 0, first, "before"), *parts]
    if end < x.shape[axis]:
        parts.append(_range(step, x, axis, end, x.shape[axis], "behind"))
    return source if len(parts) == 1 else step.add("concat", values=tuple(parts), axis=axis)


def _range(step: TorchStep, x: Value, axis: int, first: int, end: int, part: str) -> Value:
    rank = range(x.type.rank)
    return step.add("slice_by_index", part=part, x=x, begin=[first if d == axis else 0 for d in rank],
                    end=[end if d == axis else x.shape[d] for d in rank])


def _gather(step: TorchStep) -> Result:
    x, index = step.value("self"), step.value("index")
    axis = step.axis("dim", x.type.rank)
    wanted = [extent if d == axis else index.shape[d] for d, extent in enumerate(x.shape)]
    if list(x.shape) != wanted:
        x = step.add("slice_by_index", part="part", x=x, begin=[0] * len(wanted), end=wanted)
    if index.name in step.constants.places and x.shape[axis] <= SHORT and step.kind == "float":
        return _taken(step, x, index, axis)
    return step.add("gather_along_axis", x=x, indices=index, axis=axis)


def _taken(step: TorchStep, x: Value, index: Value, axis: int) -> Value:
    """Elements of a short axis at positions the engine found: sums of what is multiplied by 1 at the position and 0
    elsewhere, so that the host is not asked."""
    hits = hits_of(step, moved_last(step, index, axis, "index"), x.shape[axis])
    turned = moved_last(step, x, axis, "rows")
    rows = step.reshaped(turned, (*turned.shape[:-1], 1, turned.shape[-1]), "spread")
    kept = step.add("mul", part="kept", x=hits, y=rows)
    found = step.add("reduce_sum", part="found", x=kept, axes=[kept.type.rank - 1], keep_dims=False)
    back = np.argsort([*(d for d in range(x.type.rank) if d != axis), axis]).tolist()
    return found if axis == x.type.rank - 1 else step.add("transpose", x=found, perm=back)


OPERATORS: Mapping[str, Handler] = {
    **dict.fromkeys(("index", "_unsafe_index"), _index),
    **dict.fromkeys(("index_put", "_unsafe_index_put"), _index_put),
    **dict.fromkeys(("scatter", "scatter_add"), _scatter),
    "embedding": _look_up, "gather": _gather, "index_select": _index_select, "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
}
