"""Tensors that do not depend on data: fill, fill_like, range_1d, shape, non_zero of a constant, one_hot of constants.

They are computed when the model is compiled. What of a tensor that is computed later only its shape matters is called
`ref_tensor` or, in `shape`, `x`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, mil_type, numpy_type
from openane.ops.evaluate import evaluate_node
from openane.ops.gradients import stopped
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, INDICES, MAXIMUM_ELEMENTS, NUMBERS, Arguments, describe, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Op, OperationEvidence, Parameter

VALUE = Parameter("value", const=True, default=0.0)
PARAMETERS = {
    "fill": (Parameter("shape", const=True, kind="index"), VALUE),
    "fill_like": (Parameter("ref_tensor"), VALUE),
    "range_1d": (Parameter("end", const=True), Parameter("start", const=True), Parameter("step", const=True)),
    "shape": (Parameter("x"),),
    "non_zero": (Parameter("x", const=True),),
    "one_hot": (Parameter("indices", kind="index"), Parameter("one_hot_vector_size", const=True, kind="index"),
                Parameter("axis", const=True, default=-1, kind="int32"),
                Parameter("on_value", const=True, default=1), Parameter("off_value", const=True, default=0)),
}


def _dtype(arguments: Arguments, name: str) -> str:
    """Element type of a constant scalar that need not have that of x."""
    data = arguments.constant(name)
    if not isinstance(data, np.ndarray) or data.ndim or mil_type(data.dtype) not in ELEMENTS:
        raise refusal(arguments.op, name, f"must be one number of {', '.join(ELEMENTS)}", describe(data))
    return mil_type(data.dtype)


def _fill(arguments: Arguments) -> TensorType:
    shape = arguments.integers("shape", (), minimum=1) or ()
    return TensorType(_dtype(arguments, "value"), shape)


def _fill_like(arguments: Arguments) -> TensorType:
    return TensorType(_dtype(arguments, "value"), arguments.tensor("ref_tensor", ELEMENTS).shape)


def _range(arguments: Arguments) -> TensorType:
    start, end, step = (arguments.number(name) for name in ("start", "end", "step"))
    kinds = {_dtype(arguments, name) for name in ("start", "end", "step")}
    if len(kinds) != 1 or not kinds <= set(NUMBERS):
        raise refusal("range_1d", "start", f"must have the element type of end and step, one of {', '.join(NUMBERS)}",
                      sorted(kinds))
    if step == 0 or not np.isfinite([start, end, step]).all() or not 0 < (end - start) / step <= MAXIMUM_ELEMENTS:
        raise refusal("range_1d", "step", f"must lead from start to end in 1 to {MAXIMUM_ELEMENTS} steps",
                      f"start {start}, end {end}, step {step}")
    return TensorType(kinds.pop(), (int(np.ceil((end - start) / step)),))


def _shape(arguments: Arguments) -> TensorType:
    return TensorType("int32", (arguments.tensor("x", ELEMENTS, (1, 8)).type.rank,))


def _non_zero(arguments: Arguments) -> TensorType:
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    return TensorType("int32", (int(np.count_nonzero(x.array())), x.type.rank))


def _one_hot(arguments: Arguments) -> TensorType:
    indices = arguments.tensor("indices", INDICES, (0, 7))
    size = arguments.integer("one_hot_vector_size", 1)
    axis = arguments.axis("axis", indices.type.rank + 1)
    kind, other = _dtype(arguments, "on_value"), _dtype(arguments, "off_value")
    if kind != other:
        raise refusal("one_hot", "off_value", f"must have the element type of on_value, {kind}", other)
    return TensorType(kind, (*indices.shape[:axis], size, *indices.shape[axis:]))


INFER = {"fill": _fill, "fill_like": _fill_like, "range_1d": _range, "shape": _shape, "non_zero": _non_zero,
         "one_hot": _one_hot}


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    return (INFER[name](Arguments(name, PARAMETERS[name], operands)),)


def _fill_array(*, shape: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.full(tuple(int(extent) for extent in shape), value),)


def _fill_like_array(*, ref_tensor: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.full(ref_tensor.shape, value),)


def _range_array(*, end: np.ndarray, start: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, ...]:
    count = int(np.ceil((float(end) - float(start)) / float(step)))
    return ((start + np.arange(count) * step.astype(np.float64 if step.dtype.kind == "f" else step.dtype))
            .astype(start.dtype),)


def _shape_array(*, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.array(x.shape, np.int32),)


def _non_zero_array(*, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.argwhere(x).astype(np.int32),)


def _one_hot_array(*, indices: np.ndarray, one_hot_vector_size: np.ndarray, axis: np.ndarray, on_value: np.ndarray,
                   off_value: np.ndarray) -> tuple[np.ndarray, ...]:
    where = indices[..., None] == np.arange(int(one_hot_vector_size))
    return (np.moveaxis(np.where(where, on_value, off_value).astype(on_value.dtype), -1, int(axis)),)


REFERENCES = {"fill": _fill_array, "fill_like": _fill_like_array, "range_1d": _range_array, "shape": _shape_array,
              "non_zero": _non_zero_array, "one_hot": _one_hot_array}


def without_data(node: Node) -> tuple[np.ndarray, ...]:
    """The results of a node that needs only constants and shapes, in their element types."""
    unknown = {id(value): np.broadcast_to(np.zeros((), numpy_type(value.dtype)), value.shape)
               for value in node.values() if not value.constant}
    arrays = evaluate_node(node, unknown)
    with np.errstate(over="ignore"):
        return tuple(np.asarray(array).astype(numpy_type(value.dtype))
                     for value, array in zip(node.outputs, arrays, strict=True))


def constant_indices(node: Node, limits: Limits) -> bool:
    """Indices must be constants; compare them with a range to make one-hot vectors while the program runs."""
    indices = node.get("indices")
    return indices is None or indices.constant


def exact_integers(node: Node, limits: Limits) -> bool:
    """Integers that leave the model must be exact in fp16: up to 2048, or larger with few digits."""
    if node.output.dtype in ("fp16", "fp32") or not constant_indices(node, limits):
        return True
    with np.errstate(over="ignore"):
        return all((array.astype(np.float16).astype(np.float64) == array).all() for array in without_data(node))


def _lower(node: Node, lowering: Lowering) -> None:
    lowering.bind(node.output, lowering.constant(without_data(node)[0]), node.output.shape)


SHAPE_ONLY = ("shape", "fill_like")


def _op(name: str, reference: Any) -> Op:
    return Op(name, PARAMETERS[name], partial(_infer, name=name), reference,
              rules=(*MOVED, constant_indices, exact_integers), lower=_lower, evidence=OperationEvidence.FOLDED,
              gradient=stopped, shape_only=name in SHAPE_ONLY)


OPS = tuple(_op(name, reference) for name, reference in REFERENCES.items())
