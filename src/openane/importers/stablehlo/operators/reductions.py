"""StableHLO reductions: of whole axes, of windows, and what their regions compute, told by trying them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.composites import running
from openane.importers.stablehlo.step import Handler, Result, StableStep, StableTensor
from openane.importers.stablehlo.syntax import StableBlock
from openane.importers.stablehlo.values import StableType

_COMBINED: Mapping[str, Any] = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply,
                                "and": np.logical_and, "or": np.logical_or}
_REDUCED = {"add": "reduce_sum", "maximum": "reduce_max", "minimum": "reduce_min",
            "and": "reduce_min", "or": "reduce_max"}
RUNNING = {"add": "add", "maximum": "maximum", "minimum": "minimum", "multiply": "mul"}
"""What windows are reduced with, as operations of two tensors."""
_NEUTRAL = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf, "and": 1.0, "or": 0.0}
_TRIED = {"f": (-2.5, -1.0, 0.0, 0.5, 3.0), "i": (-2, -1, 0, 1, 3), "u": (0, 1, 2, 3, 5), "b": (False, True)}
"""Numbers that regions are tried with, by the kind of their type."""

MOST_ARGUMENTS = 6


def _samples(kinds: Sequence[StableType]) -> list[np.ndarray]:
    """Every combination of numbers to try, an array for each argument."""
    tried = [np.array(_TRIED[kind.dtype.kind], kind.dtype) for kind in kinds]
    return [grid.reshape(-1) for grid in np.meshgrid(*tried, indexing="ij")]


def tried(step: StableStep, block: StableBlock) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Arguments a region is tried with, and what it gives for them."""
    kinds = [kind for _, kind in block.arguments]
    if len(kinds) > MOST_ARGUMENTS:
        raise step.refuse("region", f"{len(kinds)} arguments", f"at most {MOST_ARGUMENTS}")
    given = _samples(kinds)
    found = step.tried(block, [StableTensor(array, kind._replace(shape=array.shape))
                               for array, kind in zip(given, kinds, strict=True)])
    return given, [np.broadcast_to(np.asarray(each.held), given[0].shape) for each in found]


def combination(step: StableStep) -> str:
    """What the operation combines two elements with: a key of the table above. UnsupportedError for anything else."""
    stated = [word.removeprefix("stablehlo.") for word in step.statement.words]
    for word in stated:
        if word in _COMBINED:
            return word
    if len(step.statement.regions) != 1 or len(step.statement.regions[0].arguments) != 2:
        raise step.refuse("region", "another number of arguments", "a function of two elements")
    given, (found, *_) = tried(step, step.statement.regions[0])
    kind = step.statement.regions[0].arguments[0][1].dtype.kind
    for name, function in _COMBINED.items():
        if (name in ("and", "or")) == (kind == "b") and np.array_equal(function(*given), found):
            return name
    raise step.refuse("region", "another function", f"one of {', '.join(_COMBINED)}")


def _neutral(name: str, tensor: StableTensor) -> float:
    """The number that changes nothing: for extremes of integers the last of their type."""
    number, dtype = _NEUTRAL[name], tensor.type.dtype
    if np.isfinite(number) or dtype.kind == "f":
        return number
    return float(np.iinfo(dtype).min if number < 0 else np.iinfo(dtype).max)


def _reduce(step: StableStep) -> Result:
    axes = step.integers("dimensions")
    if len(step.operands) == 4:
        step.operands = [step.as_stated(each) for each in step.operands]
        return _position(step, axes)
    if len(step.operands) != 2:
        raise step.refuse("operands", len(step.operands), "one tensor, or one and its positions")
    x, first = step.operands
    axes = tuple(step.front(axis, len(x.shape)) for axis in axes)
    name = combination(step)
    if isinstance(x.held, np.ndarray):
        return _reduced(step, name, axes)
    if first.number != _neutral(name, first):
        raise step.refuse("the number it begins with", first.number, f"{_neutral(name, first):g}")
    order = x.order or tuple(range(len(x.shape)))
    left = [axis for axis in order if axis not in axes]
    found = _finished(step, name, step.ordered(0, order), [order.index(axis) for axis in axes])
    return StableTensor(found, step.type, tuple(sorted(left).index(axis) for axis in left) if x.order else ())


def _reduced(step: StableStep, name: str, axes: Sequence[int]) -> np.ndarray:
    """The reduction of a known tensor."""
    x, first = step.as_stated(step.operand(0)), step.array(1, "the number it begins with")
    return np.asarray(_COMBINED[name].reduce(step.repeated(x), axis=tuple(axes), initial=first.reshape(()).item()),
                      step.type.dtype)


def _finished(step: StableStep, name: str, value: Value, axes: Sequence[int]) -> Value:
    """The reduction of a value: of truth as of numbers, to a scalar in the rank the engine knows."""
    if not axes:
        return value
    truth = value.dtype == "bool"
    number = step.cast(value, "fp16", "number") if truth else value
    whole = len(axes) == value.type.rank
    if name == "multiply":
        left = [extent for axis, extent in enumerate(value.shape) if axis not in axes]
        return step.reshaped(step.add("reduce_prod", x=value, axes=axes, keep_dims=True), left)
    found = step.add(_REDUCED[name], "kept" if whole else "", x=number, axes=axes, keep_dims=whole)
    if name == "add":
        count = prod(value.shape[axis] for axis in axes)
        known = [StableTensor(np.array(each), StableType("i32", np.shape(each))) for each in (float(count), list(axes))]
        step.shared.origins[found.name] = "sum", (StableTensor(value, step.type), *known)

    found = step.reshaped(found, ()) if whole else found
    return step.cast(found, "bool", "found") if truth else found


def _position(step: StableStep, axes: Sequence[int]) -> Result:
    """The largest or smallest element of an axis and where it is."""
    x, places = step.operands[:2]
    if len(axes) != 1 or not isinstance(places.held, np.ndarray) or not isinstance(x.held, Value):
        raise step.refuse("operands", "two tensors", "one computed, and its positions along one axis")
    axis, extent = axes[0], x.shape[axes[0]]
    if places.held.size != extent or not np.array_equal(places.held.reshape(-1), np.arange(extent)):
        raise step.refuse("operand 1", "other numbers", "positions along the axis (iota)")
    (a, i, b, j), (value, place) = tried(step, step.statement.regions[0])
    for op, position, better in (("reduce_max", "reduce_argmax", a > b), ("reduce_min", "reduce_argmin", a < b)):
        first = better | ((a == b) & (i < j))
        if np.array_equal(place, np.where(first, i, j)) and np.array_equal(value, np.where(better | (a == b), a, b)):
            given_value = step.as_value(x)
            numbers = step.cast(given_value, "fp16", "number") if x.kind == "bool" else given_value
            extreme = step.add(op, "extreme", x=numbers, axes=axes, keep_dims=False)
            return (step.matched(extreme, x.kind, "truth"),
                    step.add(position, x=numbers, axis=axis, keep_dims=False))
    raise step.refuse("region", "another function", "that of argmax or argmin")


def _spread(step: StableStep) -> dict[str, tuple[int, ...]]:
    """Extents, strides, dilations and padding of the windows of every axis."""
    rank = len(step.operand(0).shape)
    names = {"window_dimensions": None, "window_strides": [1] * rank, "base_dilations": [1] * rank,
             "window_dilations": [1] * rank, "padding": [0] * 2 * rank}
    found = {name: step.integers(name, default=default) for name, default in names.items()}
    if any(len(each) != rank * (1 + (name == "padding")) for name, each in found.items()):
        raise GraphError(f"{step.label}: a window has {rank} axes")
    for name in ("base_dilations", "window_dilations"):
        if set(found[name]) - {1}:
            raise step.refuse(name, list(found[name]), "1: no gaps")
    if min(found["window_dimensions"] + found["window_strides"], default=1) < 1:
        raise GraphError(f"{step.label}: windows and strides are at least 1")
    return found


def _reduce_window(step: StableStep) -> Result:
    """Windows of the axes that have some, as pools; sums as means times their count."""
    if len(step.operands) != 2:
        raise step.refuse("operands", len(step.operands), "one tensor and the number it begins with")
    x, first = step.operands
    window, name = _spread(step), combination(step)
    if name not in RUNNING or first.number != _neutral(name, first):
        raise step.refuse("region", name, f"{', '.join(RUNNING)}, from the number that changes nothing")
    if isinstance(x.held, np.ndarray):
        return _windows_of(step, step.repeated(step.as_stated(x)), window, name)
    axes = _windowed(step, window)
    if not axes:
        return x
    backwards = _running(window, axes, x.shape)
    if backwards is not None:
        return _up_to_each(step, step.as_value(step.as_stated(x)), axes[0], name, backwards)
    if name == "multiply":
        raise step.refuse("region", name, "products of all elements up to each, or add, maximum or minimum")
    return _pooled(step, window, axes, name)


def _up_to_each(step: StableStep, x: Value, axis: int, name: str, backwards: bool) -> Value:
    """Sums, products or extremes of all elements up to each, or from each on."""
    if name == "add":
        return step.add("cumsum", x=x, axis=axis, reverse=backwards)

    def combine(earlier: Value, later: Value, part: str) -> Value:
        return step.add(RUNNING[name], part, x=earlier, y=later)
    turned = step.add("reverse", "turned", x=x, axes=[axis]) if backwards else x
    found = running(step, turned, axis, combine)
    return step.add("reverse", x=found, axes=[axis]) if backwards else found


def _windowed(step: StableStep, window: Mapping[str, tuple[int, ...]]) -> list[int]:
    """The axes with windows. UnsupportedError for more than three."""
    axes = [axis for axis, extent in enumerate(window["window_dimensions"])
            if extent > 1 or window["window_strides"][axis] > 1 or any(window["padding"][2 * axis:2 * axis + 2])]
    if len(axes) > 3:
        raise step.refuse("window_dimensions", list(window["window_dimensions"]), "windows over three axes at most")
    return axes


def _running(window: Mapping[str, tuple[int, ...]], axes: Sequence[int], shape: Sequence[int]) -> bool | None:
    """Whether windows of one axis hold all elements up to each (False) or from each on (True); None for others."""
    extent = shape[axes[0]]
    if len(axes) > 1 or window["window_dimensions"][axes[0]] != extent or window["window_strides"][axes[0]] != 1:
        return None
    before, after = window["padding"][2 * axes[0]:2 * axes[0] + 2]
    return {(extent - 1, 0): False, (0, extent - 1): True}.get((before, after))


def _pooled(step: StableStep, window: Mapping[str, tuple[int, ...]], axes: list[int], name: str) -> StableTensor:
    """The axes with windows behind all others, of which the last is the channels' and the rest the batch."""
    x = step.operand(0)
    others = [axis for axis in range(len(x.shape)) if axis not in axes]
    moved = step.ordered(0, others + axes)
    extents = [x.shape[axis] for axis in others]
    shape = (prod(extents[:-1]), prod(extents[-1:]), *(x.shape[axis] for axis in axes))
    moved = step.reshaped(moved, shape, "pooled")
    kernel = [window["window_dimensions"][axis] for axis in axes]
    settings: dict[str, Any] = {
        "kernel_sizes": kernel, "strides": [window["window_strides"][axis] for axis in axes], "pad_type": "custom",
        "pad": [window["padding"][2 * axis + side] for axis in axes for side in (0, 1)]}
    op = "max_pool"
    if name == "minimum":
        moved = step.add("mul", "negative", x=moved, y=-1.0)
    elif name == "add":
        op, settings["exclude_padding_from_average"] = "avg_pool", False
    found = step.add(op, "pool", x=moved, **settings)
    whole = StableTensor(step.reshaped(found, [*extents, *found.shape[2:]], "whole"), step.type, tuple(others + axes))
    return whole if name == "maximum" else _scaled(step, whole, -1.0 if name == "minimum" else float(prod(kernel)))


def _scaled(step: StableStep, mean: StableTensor, factor: float) -> StableTensor:
    """Windows times a number: what a sum is of the mean, which is what it is where it is divided by the number."""
    found = step.add("mul", x=mean.held, y=factor)
    count = StableTensor(np.array(factor), StableType("f32", ()))
    step.shared.origins[found.name] = "windows", (StableTensor(mean.held, mean.type), count)
    return replace(mean, held=found)


def _windows_of(step: StableStep, array: np.ndarray, window: Mapping[str, tuple[int, ...]], name: str) -> np.ndarray:
    """The reduction of a known tensor: counts of elements inside windows are computed so."""
    pads = list(zip(window["padding"][::2], window["padding"][1::2], strict=True))
    sizes = window["window_dimensions"]
    if min(map(min, pads), default=0) < 0:
        raise step.refuse("padding", pads, "0 or more")
    long = [extent + sum(pad) for extent, pad in zip(array.shape, pads, strict=True)]
    step.take(long, array.dtype.itemsize)
    step.shared.budget.take(step.label, 0, float(prod(step.shape)) * prod(sizes))
    padded = np.pad(array, pads, constant_values=np.asarray(step.operand(1).held).reshape(()))
    views = np.lib.stride_tricks.sliding_window_view(padded, sizes)
    kept = views[tuple(slice(None, None, by) for by in window["window_strides"])]
    return np.asarray(_COMBINED[name].reduce(kept, axis=tuple(range(array.ndim, 2 * array.ndim))))


OPERATORS: Mapping[str, Handler] = {"reduce": _reduce, "reduce_window": _reduce_window}
