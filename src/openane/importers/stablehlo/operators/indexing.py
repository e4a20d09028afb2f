"""StableHLO operations that look elements up or sort them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Value
from openane.importers.stablehlo.operators.reductions import tried
from openane.importers.stablehlo.step import Handler, Result, StableStep, StableTensor


def _gather(step: StableStep) -> Result:
    """Whole slices at positions along one axis: rows of a table, or what `take` picks."""
    axis, found, offsets = _taken(step)
    x, places = step.operands
    # take puts the positions where the axis was; the program states where everything else goes
    order = [at for at in range(len(step.shape)) if at not in offsets]
    order = [*offsets[:axis], *order, *offsets[axis:]]
    indices = _positions(step, places, x.shape[axis])
    if step.known and isinstance(indices, np.ndarray):
        step.take(step.shape)
        taken = np.take(step.array(0, "x"), indices.reshape(found), axis)
        return taken.transpose(np.argsort(order))
    flat = indices.astype(np.int32).reshape(found) if isinstance(indices, np.ndarray) else \
        step.reshaped(indices, found, "positions")
    result = step.add("gather", "rows", x=step.value(0), indices=flat, axis=axis)
    return step.permuted(result, np.argsort(order).tolist(), "as_stated")


def _taken(step: StableStep) -> tuple[int, tuple[int, ...], list[int]]:
    """The axis positions lie along, their shape, and which axes of the result come from slices. UnsupportedError for
    any other lookup."""
    numbers = step.attribute("dimension_numbers")
    stated = numbers if isinstance(numbers, dict) else {}
    x, places = step.operands
    offsets, collapsed, mapped = (stated.get(name, []) for name in
                                  ("offset_dims", "collapsed_slice_dims", "start_index_map"))
    if stated.get("operand_batching_dims") or len(mapped) != 1 or collapsed != mapped or any(
            size != (1 if axis == mapped[0] else extent)
            for axis, (size, extent) in enumerate(zip(step.integers("slice_sizes"), x.shape, strict=True))):
        raise step.refuse("dimension_numbers", str(stated)[:120], "whole slices at positions along one axis (take)")
    vector, found = stated.get("index_vector_dim", 0), places.shape
    if vector != len(found):
        if found[vector] != 1:
            raise step.refuse("index_vector_dim", vector, "one position for each slice")
        found = (*found[:vector], *found[vector + 1:])
    return mapped[0], found, offsets


def _positions(step: StableStep, places: StableTensor, extent: int) -> Value | np.ndarray:
    """Positions, those outside moved to the nearest inside where they are known. JAX writes that negative ones count
    from the end, which the graph's lookups do themselves."""
    if isinstance(places.held, np.ndarray):
        return np.asarray(np.clip(step.repeated(places), 0, extent - 1))
    chosen = step.origin(places, "select")
    if chosen is not None:
        negative, longer = step.origin(chosen[0], "compare LT"), step.origin(chosen[1], "add")
        x = chosen[2].held
        if negative is not None and longer is not None and negative[0].held is x is longer[0].held and \
                negative[1].number == 0 and longer[1].number == extent:
            return step.reshaped(step.as_value(chosen[2]), places.shape, "from_the_end")
    return step.as_value(places)


def _sort(step: StableStep) -> Result:
    """An axis in order, alone or with the positions its elements had."""
    axis = step.front(step.integer("dimension", default=-1), len(step.shape))
    x = step.operand(0)
    extent, rank = x.shape[axis], len(step.shape)
    alone = len(step.operands) == 1
    if not alone:
        places = step.operand(1).held
        along = [extent if at == axis else 1 for at in range(rank)]
        if len(step.operands) != 2 or not isinstance(places, np.ndarray) or list(places.shape) != along or \
                not np.array_equal(places, np.arange(extent).reshape(along)):
            raise step.refuse("operands", len(step.operands), "one tensor, alone or with its positions (iota)")
    given, (found,) = tried(step, step.statement.regions[0])
    ascending = np.array_equal(found, given[0] < given[1])
    if not ascending and not np.array_equal(found, given[0] > given[1]):
        raise step.refuse("region", "another function", "less or greater of two elements")
    values, indices = step.add_all("topk", "sorted", x=step.as_value(x), k=extent, axis=axis, ascending=ascending)
    return values if alone else (values, indices)


def _top(step: StableStep) -> Result:
    x, stated = step.value(0), step.attribute("composite_attributes")
    count = stated.get("k") if isinstance(stated, dict) else step.integer("k")
    return step.add_all("topk", x=x, k=count, axis=x.type.rank - 1, ascending=False)


OPERATORS: Mapping[str, Handler] = {"gather": _gather, "sort": _sort, "chlo.top_k": _top}
