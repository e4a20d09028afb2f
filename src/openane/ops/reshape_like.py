"""reshape_like: x in a shape put together from dimensions of other tensors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, only, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.reshape import reshape_of_reshape
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (
    Parameter("x"),
    Parameter("ref_tensors", variadic=True),
    Parameter("begins", const=True, variadic=True, kind="int32"),
    Parameter("ends", const=True, variadic=True, kind="int32"),
    Parameter("end_masks", const=True, variadic=True, kind="bool"),
)


def _scalars(operands: Mapping[str, Operand], name: str) -> list[int]:
    operand = operands.get(name, ())
    values = (operand,) if isinstance(operand, Value) else operand
    if any(value.type.elements != 1 for value in values):
        raise refusal("reshape_like", name, "must be a tuple of scalars", [str(value.type) for value in values][:16])
    return [int(value.array().reshape(())) for value in values]


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("reshape_like", PARAMETERS, operands)
    x = arguments.tensor("x", ELEMENTS)
    references = arguments.tensors("ref_tensors")
    begins, ends, masks = (_scalars(operands, name) for name in ("begins", "ends", "end_masks"))
    if not len(begins) == len(ends) == len(masks) == len(references):
        raise refusal("reshape_like", "begins", f"ends and end_masks must hold {len(references)} scalars each",
                      [len(begins), len(ends), len(masks)])
    shape: tuple[int, ...] = ()
    for value, begin, end, mask in zip(references, begins, ends, masks, strict=True):
        shape += value.shape[begin:None if mask else end]
    if prod(shape) != x.type.elements:
        raise refusal("reshape_like", "ref_tensors", f"must give a shape of the {x.type.elements} elements of x",
                      list(shape))
    return (TensorType(x.dtype, shape),)


def _reference(*, x: np.ndarray, ref_tensors: tuple[np.ndarray, ...], begins: tuple[np.ndarray, ...],
               ends: tuple[np.ndarray, ...], end_masks: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    shape: tuple[int, ...] = ()
    for array, begin, end, mask in zip(ref_tensors, begins, ends, end_masks, strict=True):
        shape += array.shape[int(begin.reshape(())):None if mask.any() else int(end.reshape(()))]
    return (x.reshape(shape),)


def _lower(node: Node, lowering: Lowering) -> None:
    """As reshape: no operation where strides can express the new shape."""
    lowering.alias(node.output, node["x"])


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    return {"x": reshaped(backward, only(upstream), node["x"].shape)}


OPS = (Op("reshape_like", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, view=True, gradient=_gradient,
          moves=Movement.SHAPE, merge=reshape_of_reshape),)
