"""split: x cut into parts along one axis."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np

from openane.graph import Node, Operand, TensorType, numpy_type
from openane.ops.fewer import split
from openane.ops.gradients import Backward
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (
    Parameter("x"),
    Parameter("num_splits", const=True, default=None, kind="int32"),
    Parameter("split_sizes", const=True, default=None, kind="index"),
    Parameter("axis", const=True, kind="int32"),
)


def _parts(operands: Mapping[str, Operand]) -> tuple[int, tuple[int, ...]]:
    """The axis and the size of each part. GraphError when they do not add up to x."""
    arguments = Arguments("split", PARAMETERS, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    axis = arguments.axis("axis", x.type.rank)
    return axis, _sizes(arguments, x.shape[axis])


def _sizes(arguments: Arguments, extent: int) -> tuple[int, ...]:
    number = arguments.integer("num_splits", 1) if arguments.given("num_splits") else None
    sizes = arguments.integers("split_sizes", minimum=1)
    if sizes is None:
        if number is None:
            raise refusal("split", "num_splits", "or split_sizes must be given", "neither")
        if extent % number:
            raise refusal("split", "num_splits", f"must divide the {extent} elements of the axis", number)
        return (extent // number,) * number
    if sum(sizes) != extent or number not in (None, len(sizes)):
        raise refusal("split", "split_sizes", f"must hold {number or 'some'} sizes that add up to {extent}",
                      list(sizes)[:16])
    return sizes


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    axis, sizes = _parts(operands)
    x = Arguments("split", PARAMETERS, operands).tensor("x", ELEMENTS)
    return tuple(TensorType(x.dtype, (*x.shape[:axis], size, *x.shape[axis + 1:])) for size in sizes)


def _reference(*, x: np.ndarray, num_splits: np.ndarray | None, split_sizes: np.ndarray | None,
               axis: np.ndarray) -> tuple[np.ndarray, ...]:
    if split_sizes is not None:
        return tuple(np.split(x, np.cumsum(split_sizes)[:-1], int(axis)))
    return tuple(np.split(x, 1 if num_splits is None else int(num_splits), int(axis)))


def _lower(node: Node, lowering: Lowering) -> None:
    """Views; where a part would start inside 64 bytes of a row, of a copy whose rows run along another dimension."""
    axis, sizes = _parts(node.operands)
    tensor = lowering.native(node["x"])
    starts = list(accumulate(sizes, initial=0))[:-1]
    if not all(tensor.part(axis, start, size).aligned for start, size in zip(starts, sizes, strict=True)):
        tensor = lowering.turned(tensor, axis)
    for value, start, size in zip(node.outputs, starts, sizes, strict=True):
        lowering.bind(value, tensor.part(axis, start, size))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The parts joined, zeros for those the loss does not depend on."""
    axis, _ = _parts(node.operands)
    parts = [np.zeros(value.shape, numpy_type(value.dtype)) if given is None else given
             for value, given in zip(node.outputs, upstream, strict=True)]
    return {"x": backward.single("concat", values=tuple(parts), axis=axis)}


OPS = (Op("split", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient, moves=Movement.PART,
          fewer=split),)
