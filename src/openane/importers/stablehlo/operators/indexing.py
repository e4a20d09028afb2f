"""StableHLO operations that look elements up or sort them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openane.graph import Value
from openane.importers.stablehlo.operators.reductions import tried
from openane.importers.stablehlo.positions import Windows, elements, windows
from openane.importers.stablehlo.step import Handler, Result, StableStep, StableTensor

NAMES = ("collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims")


def _gather(step: StableStep) -> Result:
    """Whole slices at positions along one axis: rows of a table, or what `take` picks; an element of every line, as
    `take_along_axis` picks; anything else at positions that are known."""
    numbers = step.attribute("dimension_numbers")
    stated = numbers if isinstance(numbers, dict) else {}
    window = windows(step, stated, NAMES, step.integers("slice_sizes"))
    found = _taken(step, stated, window)
    if found is not None:
        return found
    places = step.operand(1)
    if isinstance(places.held, np.ndarray):
        return _at_known(step, elements(step, window, step.repeated(places), stated.get("offset_dims", []), True))
    axis = window.mapped[0] if len(window.mapped) == 1 else -1
    others = tuple(at for at in range(len(window.shape)) if at != axis)
    if window.left_out == (axis,) and set(window.sizes) == {1} and others == window.batched == window.batched_places:
        indices = step.as_value(_from_the_end(step, places, window.shape[axis]))
        return step.add("gather_along_axis", x=step.value(0), indices=step.reshaped(indices, step.shape, "places"),
                        axis=axis)
    raise step.refuse("dimension_numbers", str(stated)[:120],
                      "whole slices at positions along one axis (take), take_along_axis, or constant positions")


def _at_known(step: StableStep, places: np.ndarray) -> Result:
    """Elements of x, read as one list, at known places."""
    x = step.operand(0)
    if isinstance(x.held, np.ndarray):
        return np.asarray(step.repeated(x).reshape(-1)[places])
    flat = step.reshaped(step.as_value(x), (-1,), "flat")
    if not np.array_equal(places.reshape(-1), np.arange(flat.shape[0])):
        flat = step.add("gather", "picked", x=flat, indices=places.reshape(-1).astype(np.int32), axis=0)
    return step.reshaped(flat, step.shape)


def _taken(step: StableStep, stated: Mapping[str, Any], window: Windows) -> Result | None:
    """Whole slices at positions along one axis; None for any other lookup."""
    offsets, found = list(stated.get("offset_dims", [])), step.operand(1).shape
    if not window.of_one_axis:
        return None
    axis = window.mapped[0]
    if window.vector != len(found):
        if found[window.vector] != 1:
            raise step.refuse("index_vector_dim", window.vector, "one position for each slice")
        found = (*found[:window.vector], *found[window.vector + 1:])
    if not window.left_out:  # the axis stays with one element: it is put back by the result's shape
        gone = offsets.pop(axis)
        offsets = [at - (at > gone) for at in offsets]
    return _rows(step, axis, found, offsets)


def _rows(step: StableStep, axis: int, found: Sequence[int], offsets: Sequence[int]) -> Result:
    """Slices at positions of a shape; `offsets` are the axes of the result that come from slices."""
    x, places = step.operands
    # take puts the positions where the axis was; the program states where everything else goes
    order = [at for at in range(len(offsets) + len(found)) if at not in offsets]
    order = [*offsets[:axis], *order, *offsets[axis:]]
    indices = _positions(step, places, x.shape[axis])
    if step.known and isinstance(indices, np.ndarray):
        step.take(step.shape)
        taken = np.take(step.array(0, "x"), indices.reshape(found), axis)
        return taken.transpose(np.argsort(order)).reshape(step.shape)
    flat = indices.astype(np.int32).reshape(found) if isinstance(indices, np.ndarray) else \
        step.reshaped(indices, found, "positions")
    result = step.add("gather", "rows", x=step.value(0), indices=flat, axis=axis)
    return step.reshaped(step.permuted(result, np.argsort(order).tolist(), "as_stated"), step.shape, "with_one")


def _positions(step: StableStep, places: StableTensor, extent: int) -> Value | np.ndarray:
    """Positions, those outside moved to the nearest inside where they are known. JAX writes that negative ones count
    from the end, which the graph's lookups do themselves."""
    if isinstance(places.held, np.ndarray):
        return np.asarray(np.clip(step.repeated(places), 0, extent - 1))
    return step.reshaped(step.as_value(_from_the_end(step, places, extent)), places.shape)


def _from_the_end(step: StableStep, places: StableTensor, extent: int) -> StableTensor:
    """The positions JAX adds an extent to where they are negative, before it does so."""
    chosen = step.origin(places, "select")
    if chosen is not None:
        negative, longer = step.origin(chosen[0], "compare LT"), step.origin(chosen[1], "add")
        x = chosen[2].held
        if negative is not None and longer is not None and negative[0].held is x is longer[0].held and \
                negative[1].number == 0 and longer[1].number == extent:
            return chosen[2]
    return places


def _sort(step: StableStep) -> Result:
    """An axis in order: one tensor, alone or with the positions its elements had, or several that go along, by the
    first of them or by as many as the comparison looks at."""
    axis = step.front(step.integer("dimension", default=-1), len(step.shape))
    shapes = [list(each.shape) for each in step.operands]
    if any(shape != shapes[0] for shape in shapes):
        raise step.refuse("operands", shapes, "tensors of one shape: one alone or with its positions, or several")
    keys, ascending = _compared(step)
    places = [_is_places(each, axis) for each in step.operands]
    if keys == 1 and places[1:] in ([], [True]):
        x, found = _sortable(step, 0), step.operand(0).kind
        values, indices = step.add_all("topk", "sorted", x=x, k=x.shape[axis], axis=axis, ascending=ascending)
        values = step.matched(values, found)
        return (values, indices) if places[1:] else values
    order = _order(step, axis, keys, ascending)
    made = [order if known else step.matched(step.add(
        "gather_along_axis", f"along{at}", x=_sortable(step, at), indices=order, axis=axis), step.operand(at).kind)
        for at, known in enumerate(places)]
    return made if len(made) > 1 else made[0]


def _compared(step: StableStep) -> tuple[int, bool]:
    """How many operands a sort compares, one after another where those before are equal, and whether less is first."""
    given, (found,) = tried(step, step.statement.regions[0])
    for keys in range(1, len(step.operands) + 1):
        for ascending in (True, False):
            before, equal = np.zeros(found.shape, bool), np.ones(found.shape, bool)
            for one, other in list(zip(given[::2], given[1::2], strict=True))[:keys]:
                before |= equal & (one < other if ascending else one > other)
                equal &= one == other
            if np.array_equal(found, before):
                return keys, ascending
    raise step.refuse("region", "another function", "less or greater of two elements, or of those behind equal ones")


def _is_places(tensor: StableTensor, axis: int) -> bool:
    """Whether a tensor counts the positions on an axis."""
    rank, extent = len(tensor.shape), tensor.shape[axis]
    along = [extent if at == axis else 1 for at in range(rank)]
    return isinstance(tensor.held, np.ndarray) and list(tensor.held.shape) == along and \
        np.array_equal(tensor.held, np.arange(extent).reshape(along))


def _sortable(step: StableStep, at: int) -> Value:
    """An operand as numbers, those that repeat written out."""
    tensor = step.operand(at)
    value = step.as_value(step.as_stated(tensor))
    return step.cast(value, "fp16", f"number{at}") if tensor.kind == "bool" else value


def _order(step: StableStep, axis: int, keys: int, ascending: bool) -> Value:
    """The positions in order: by the last key first, and by each before it without changing that among equals."""
    order: Value | None = None
    for at in reversed(range(keys)):
        key = _sortable(step, at)
        if order is not None:
            key = step.add("gather_along_axis", f"key{at}", x=key, indices=order, axis=axis)
        found = step.add("argsort", f"order{at}", x=key, axis=axis, ascending=ascending)
        order = found if order is None else step.add("gather_along_axis", f"order_by{at}", x=order, indices=found,
                                                     axis=axis)
    assert order is not None, "a sort compares"
    return order


def _top(step: StableStep) -> Result:
    x, stated = step.value(0), step.attribute("composite_attributes")
    count = stated.get("k") if isinstance(stated, dict) else step.integer("k")
    return step.add_all("topk", x=x, k=count, axis=x.type.rank - 1, ascending=False)


OPERATORS: Mapping[str, Handler] = {"gather": _gather, "sort": _sort, "chlo.top_k": _top}
