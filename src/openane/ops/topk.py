"""topk: the k largest (or with `ascending` smallest) elements along one axis, in order, and their positions.

Equal elements come in the order they have in x. Without `sort` MIL promises no order; this is one. Elements of -65504
and less (65504 and more with `ascending`) are not told from those already found.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.engine import Activation, Binary, Post
from openane.graph import Node, Operand, TensorType, Value, numpy_type
from openane.ops import selection, tables
from openane.ops.fewer import along
from openane.ops.gradients import Backward, number, product, reshaped
from openane.ops.halves import LARGEST
from openane.ops.lowering import Lowering, Tensor
from openane.ops.operands import NUMBERS, Arguments, refusal
from openane.ops.spec import Op, Parameter, Upstream

PARAMETERS = (
    Parameter("x"), Parameter("k", const=True, default=1, kind="int32"),
    Parameter("axis", const=True, default=-1, kind="int32"),
    Parameter("ascending", const=True, default=False, kind="bool"),
    Parameter("sort", const=True, default=True, kind="bool"),
    Parameter("return_indices", const=True, default=True, kind="bool"),
    Parameter("output_indices_dtype", const=True, default=None, kind="string"),
)
MOST = 32
"""Elements found one after the other."""


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("topk", PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    axis, count = _place(arguments, x.shape)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1:])
    arguments.flag("ascending"), arguments.flag("sort")
    positions = TensorType(selection.index_type(arguments, "output_indices_dtype"), shape)
    return (TensorType(x.dtype, shape), positions) if arguments.flag("return_indices") else \
        (TensorType(x.dtype, shape),)


def _place(arguments: Arguments, shape: tuple[int, ...]) -> tuple[int, int]:
    """Axis, and how many elements are found along it."""
    axis = arguments.axis("axis", len(shape))
    count = arguments.integer("k", -1, shape[axis])
    if count == 0:
        raise refusal("topk", "k", f"must be 1 to {shape[axis]}, or -1 for all", count)
    return axis, shape[axis] if count == -1 else count


def _reference(*, x: np.ndarray, k: np.ndarray, axis: np.ndarray, ascending: np.ndarray, sort: np.ndarray,
               return_indices: np.ndarray, output_indices_dtype: str | None) -> tuple[np.ndarray, ...]:
    along = int(axis) % x.ndim
    count = x.shape[along] if k == -1 else int(k)
    wide = x.astype(np.float64)
    order = np.argsort(wide if ascending else -wide, axis=along, kind="stable")
    order = np.take(order, np.arange(count), along)
    found = np.take_along_axis(x, order, along)
    return (found, order.astype(numpy_type(output_indices_dtype or "int32"))) if return_indices else (found,)


def exact_positions(node: Node, limits: Limits) -> bool:
    """The axis may have at most 2048 positions: the engine counts in fp16."""
    axis, _ = _place(Arguments("topk", PARAMETERS, node.operands), node["x"].shape)
    return node["x"].shape[axis] <= selection.POSITIONS


def few_elements(node: Node, limits: Limits) -> bool:
    """k must be at most 32: the elements are found one after the other, eight engine operations each."""
    return _place(Arguments("topk", PARAMETERS, node.operands), node["x"].shape)[1] <= MOST


def _lower(node: Node, lowering: Lowering) -> None:
    """k times the extreme element and its first position, which is then put out of the running."""
    arguments = Arguments("topk", PARAMETERS, node.operands)
    axis, count = _place(arguments, node["x"].shape)
    source, ascending = lowering.compact(lowering.read(node["x"])), arguments.flag("ascending")
    values, places = [], []
    for turn in range(count):
        best = selection.extreme(lowering, source, axis, ascending)
        place = lowering.scratch(best.shape)
        selection.first_position(lowering, place, source, best, axis)
        values.append(best)
        places.append(place)
        if turn < count - 1:
            source = _without(lowering, source, place, axis, ascending)
    for value, parts in zip(node.outputs, (values, places), strict=False):
        lowering.join(lowering.result(value), parts, axis)


def _without(lowering: Lowering, source: Tensor, place: Tensor, axis: int, ascending: bool) -> Tensor:
    """source with the last number in order at `place`: a table of the distance to it gives the bound that a minimum
    (or maximum) with source keeps to."""
    distance, bound, result = (lowering.scratch(source.shape) for _ in range(3))
    numbers = selection.positions(lowering, source.shape, axis)
    lowering.elementwise(distance, numbers.expand(source.shape), place, subtract=True)
    last = LARGEST if ascending else -LARGEST
    lowering.copy(distance, bound, Post(activation=Activation.TABLE), tables.step(-last, last, -last))
    lowering.elementwise(result, source, bound, Binary.MAXIMUM if ascending else Binary.MINIMUM)
    return result


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The elements that were found get what comes for them: positions are compared with those found, and products with
    the comparisons summed over the elements found."""
    x, given = node["x"], upstream[0]
    if given is None:
        return {}
    axis, count = _place(Arguments("topk", PARAMETERS, node.operands), x.shape)
    before, extent, after = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1:])
    found = reshaped(backward, _positions_found(node, backward), (before, count, 1, after))
    where = backward.single("equal", x=backward.single("cast", x=found, dtype=x.dtype),
                            y=np.arange(extent, dtype=numpy_type(x.dtype)).reshape(1, 1, extent, 1))
    shares = product(backward, number(backward, where, x.dtype),
                     reshaped(backward, given, (before, count, 1, after)))
    summed = backward.single("reduce_sum", x=shares, axes=[1], keep_dims=False)
    return {"x": reshaped(backward, summed, x.shape)}


def _positions_found(node: Node, backward: Backward) -> Value:
    """The positions, found again where the node does not return them."""
    if len(node.outputs) == 2:
        return node.outputs[1]
    operands: dict[str, Any] = {**node.operands, "return_indices": True}
    again = backward.add("topk", **operands)
    assert isinstance(again, tuple), "with return_indices there are two results"
    return again[1]


OPS = (Op("topk", PARAMETERS, _infer, _reference, lower=_lower, gradient=_gradient,
          rules=(selection.at_most_five_dimensions, exact_positions, few_elements),
          fewer=along(PARAMETERS)),)
