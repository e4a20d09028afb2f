"""StableHLO products: matrices, in whatever order their axes are, and convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Value
from openane.importers.stablehlo.step import Handler, Result, StableStep, StableTensor

LARGEST_RANK = 5
"""Of what a product takes."""


def _axes(step: StableStep) -> tuple[list[int], list[int], list[int], list[int]]:
    """Batching axes of both operands, then contracting ones. GraphError where they do not fit."""
    batch, other_batch = _pair(step, "batching")
    summed, other_summed = _pair(step, "contracting")
    extents = [[step.operand(place).shape[axis] for axis in _each_once(step, place, axes)]
               for place, axes in ((0, batch + summed), (1, other_batch + other_summed))]
    if extents[0] != extents[1]:
        raise GraphError(f"{step.label}: axes that are multiplied have other extents: {extents}")
    return batch, other_batch, summed, other_summed


def _pair(step: StableStep, name: str) -> list[list[int]]:
    """The axes of both operands that are stated under a name."""
    stated = step.attribute("dot_dimension_numbers")
    table = stated if isinstance(stated, dict) else {}
    both = step.attribute(f"{name}_dims") or [table.get(f"{side}_{name}_dimensions", []) for side in ("lhs", "rhs")]
    if len(both) != 2 or not all(isinstance(each, list) for each in both):
        raise GraphError(f"{step.label}: {name}_dims must be two lists of axes")
    return [both[0], both[1]]


def _each_once(step: StableStep, place: int, axes: list[int]) -> list[int]:
    rank = len(step.operand(place).shape)
    if not all(isinstance(axis, int) and 0 <= axis < rank for axis in axes) or len(set(axes)) != len(axes):
        raise GraphError(f"{step.label}: {axes} are not {len(axes)} of {rank} axes")
    return axes


def _dot(step: StableStep) -> Result:
    """Axes in the order batch, rows, columns: a `linear` layer where one operand is known and nothing is batched."""
    batch, other_batch, summed, other_summed = _axes(step)
    x, y = step.operands
    rows = [axis for axis in range(len(x.shape)) if axis not in batch + summed]
    columns = [axis for axis in range(len(y.shape)) if axis not in other_batch + other_summed]
    if step.known:
        step.shared.budget.take(step.label, 4 * prod(step.shape), prod(x.shape) * prod(step.shape))
        return np.tensordot(step.array(0, "x"), step.array(1, "y"), (summed, other_summed)) if not batch else \
            np.matmul(_arranged(step, 0, batch, rows, summed), _arranged(step, 1, other_batch, other_summed, columns)
                      ).reshape(step.shape)
    if not batch and isinstance(y.held, np.ndarray):
        return _linear(step, 0, rows, summed, step.half(1, "a matrix").transpose(columns + other_summed), columns)
    if not batch and isinstance(x.held, np.ndarray):
        result = _linear(step, 1, columns, other_summed, step.half(0, "a matrix").transpose(rows + summed), rows)
        order = [*range(len(columns), len(columns) + len(rows)), *range(len(columns))]
        return step.permuted(result, order, "ordered")
    return _matmul(step, (batch, rows, summed), (other_batch, columns, other_summed))


def _arranged(step: StableStep, index: int, batch: list[int], first: list[int], second: list[int]) -> np.ndarray:
    """A known operand as matrices."""
    array = step.array(index, "a matrix")
    shape = [[array.shape[axis] for axis in axes] for axes in (batch, first, second)]
    return array.transpose(batch + first + second).reshape(*shape[0], prod(shape[1]), prod(shape[2]))


def _linear(step: StableStep, index: int, rows: list[int], summed: list[int], weight: np.ndarray,
            columns: list[int]) -> Value:
    """The product of an operand and a known matrix (columns, summed): (rows, columns)."""
    x = step.value(index)
    width = prod(x.shape[axis] for axis in summed)
    kept = [x.shape[axis] for axis in rows]
    wide = weight.shape[:len(columns)]
    flat = step.permuted(x, rows + summed, "ordered")
    shape = (*kept, width) if len(kept) < LARGEST_RANK else (prod(kept), width)
    flat = step.reshaped(flat, shape if kept else (1, width), "rows")
    matrix = np.ascontiguousarray(weight.reshape(prod(wide), width))
    return step.reshaped(step.add("linear", "product", x=flat, weight=matrix), (*kept, *wide))


def _matmul(step: StableStep, first: Sequence[list[int]], second: Sequence[list[int]]) -> Value:
    """The product of two operands, each with its batch, its own axes and those summed over."""
    whole: list[Value] = []
    shapes = []
    for index, (batch, own, summed) in enumerate((first, second)):
        x = step.value(index)
        groups = [[x.shape[axis] for axis in axes] for axes in (batch, own, summed)]
        if len(batch) > LARGEST_RANK - 2:
            groups[0] = [prod(groups[0])]
        # The order the axes have is kept where it puts those that are summed over before the others: both can be read.
        turned = bool(own) and bool(summed) and max(summed) < min(own)
        order = batch + (summed + own if turned else own + summed)
        inner = (prod(groups[2]), prod(groups[1])) if turned else (prod(groups[1]), prod(groups[2]))
        whole.append(step.reshaped(step.permuted(x, order, f"ordered{index}"), (*groups[0], *inner), f"matrix{index}"))
        shapes.append((groups[1], turned))
    (_, turned), (_, other_turned) = shapes
    product = step.add("matmul", "product", x=whole[0], y=whole[1], transpose_x=turned, transpose_y=not other_turned)
    return step.reshaped(product, step.shape)


def _layout(step: StableStep) -> tuple[list[Any], list[Any], list[Any]]:
    """What every axis of input, kernel and result is: a letter or the number of a spatial axis."""
    found = step.attribute("dim_numbers", "dimension_numbers")
    rank = len(step.shape)
    if not isinstance(found, list) or len(found) != 3 or rank < 3:
        raise step.refuse("dim_numbers", str(found)[:60], "three lists: [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]")
    numbers = list(range(rank - 2))
    for each, letters in zip(found, ("bf", "io", "bf"), strict=True):
        if not isinstance(each, list) or sorted(map(str, each)) != sorted([*map(str, numbers), *letters]):
            raise GraphError(f"{step.label}: dim_numbers must name {', '.join(letters)} and the axes {numbers} once "
                             f"each, found {str(each)[:60]}")
    return found[0], found[1], found[2]


def _window(step: StableStep, axes: int) -> tuple[dict[str, tuple[int, ...]], list[bool]]:
    """Strides, padding and dilations by the names the text has for them, and which axes of the kernel are reversed."""
    stated = step.attribute("window")
    window: dict[str, Any] = stated if isinstance(stated, dict) else {}
    ones, zeros = [1] * axes, [0] * 2 * axes
    named = (("stride", "window_strides", ones), ("pad", "padding", zeros), ("lhs_dilate", "lhs_dilation", ones),
             ("rhs_dilate", "rhs_dilation", ones))
    step.statement.attributes.update({f"window {short}": value for short, value in window.items()})
    found = {short: step.integers(f"window {short}", long, default=default) for short, long, default in named}
    reverse = step.integers("window reverse", "window_reversal", default=[0] * axes)
    if any(len(each) != axes * (1 + (name == "pad")) for name, each in found.items()) or len(reverse) != axes:
        raise GraphError(f"{step.label}: a window has {axes} axes")
    return found, [bool(each) for each in reverse]


def _convolution(step: StableStep) -> Result:
    """Axes in the order batch, channels, spatial; input dilation makes a transposed convolution."""
    given, kernel, wanted = _layout(step)
    axes = len(step.shape) - 2
    window, reverse = _window(step, axes)
    if step.integer("batch_group_count", default=1) != 1:
        raise step.refuse("batch_group_count", step.integer("batch_group_count"), "1")
    groups = step.integer("feature_group_count", default=1)
    order = [given.index(each) for each in ("b", "f", *range(axes))]
    weights = [kernel.index(each) for each in ("o", "i", *range(axes))]
    x = step.ordered(0, order)
    step.operands = [step.operand(0), step.as_stated(step.operand(1))]
    known = isinstance(step.operand(1).held, np.ndarray)
    weight: Any = step.half(1, "a kernel").transpose(weights) if known else \
        step.permuted(step.value(1), weights, "kernel")
    turned = [2 + axis for axis, each in enumerate(reverse) if each]
    if turned:
        weight = np.flip(np.asarray(weight), tuple(turned)) if known else \
            step.add("reverse", "reversed", x=weight, axes=turned)
    if set(window["lhs_dilate"]) == {1}:
        settings = {"strides": window["stride"], "dilations": window["rhs_dilate"], "groups": groups}
        x, pad = _inside(step, x, window["pad"])
        result = step.add("conv", "product", x=x, pad_type="custom", pad=pad, **settings,
                          weight=np.ascontiguousarray(weight) if known else weight)
    else:
        result = _transposed(step, x, weight, window, groups)
    return StableTensor(result, step.type, tuple(wanted.index(each) for each in ("b", "f", *range(axes))))


def _inside(step: StableStep, x: Value, pad: Sequence[int]) -> tuple[Value, list[int]]:
    """The input without what negative padding leaves out, and the padding that is left."""
    if min(pad, default=0) >= 0:
        return x, list(pad)
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    begin = [0, 0, *(max(0, -before) for before, _ in pairs)]
    end = [*x.shape[:2], *(extent - max(0, -after) for extent, (_, after) in zip(x.shape[2:], pairs, strict=True))]
    return step.add("slice_by_index", "inside", x=x, begin=begin, end=end), [max(0, count) for count in pad]


def _transposed(step: StableStep, x: Value, weight: Any, window: Mapping[str, tuple[int, ...]], groups: int) -> Value:
    """A convolution over an input with zeros between its elements: a transposed one, of the kernel reversed."""
    if not isinstance(weight, np.ndarray) or groups != 1 or set(window["stride"]) != {1}:
        raise step.refuse("lhs_dilation", list(window["lhs_dilate"]), "1, or a known kernel, one group, strides of 1")
    reach = [(extent - 1) * by for extent, by in zip(weight.shape[2:], window["rhs_dilate"], strict=True)]
    pads = [reach[at // 2] - count for at, count in enumerate(window["pad"])]
    flipped = np.flip(weight, tuple(range(2, weight.ndim))).swapaxes(0, 1)
    settings = {"x": x, "weight": np.ascontiguousarray(flipped), "strides": window["lhs_dilate"],
                "dilations": window["rhs_dilate"], "pad_type": "custom"}
    result = step.add("conv_transpose", "product", pad=[max(0, count) for count in pads], **settings)
    beyond = [max(0, -count) for count in pads]
    return step.add("pad", "longer", x=result, pad=[0, 0, 0, 0, *beyond], mode="constant", constant_val=0.0) \
        if any(beyond) else result


OPERATORS: Mapping[str, Handler] = {"convolution": _convolution, "dot_general": _dot}
