"""reduce_argmax, reduce_argmin: where the largest or smallest element along one axis lies; of equal ones the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, numpy_type
from openane.ops import selection
from openane.ops.fewer import along
from openane.ops.gradients import stopped
from openane.ops.lowering import Lowering
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.reduce import reduced_shape
from openane.ops.shaped import written_as
from openane.ops.spec import Op, Parameter

PARAMETERS = (
    Parameter("x"), Parameter("axis", const=True, default=-1, kind="int32"),
    Parameter("keep_dims", const=True, default=False, kind="bool"),
    Parameter("output_dtype", const=True, default=None, kind="string"),
)


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    shape = reduced_shape(x.shape, (arguments.axis("axis", x.type.rank),), arguments.flag("keep_dims"))
    return (TensorType(selection.index_type(arguments, "output_dtype"), shape),)


def _reference(*, function: Callable[..., np.ndarray], x: np.ndarray, axis: np.ndarray, keep_dims: np.ndarray,
               output_dtype: str | None) -> tuple[np.ndarray, ...]:
    found = np.asarray(function(x, axis=int(axis), keepdims=bool(keep_dims)))
    return (found.astype(numpy_type(output_dtype or "int32")),)


def exact_positions(node: Node, limits: Limits) -> bool:
    """The axis may have at most 2048 positions: the engine counts in fp16."""
    return node["x"].shape[_axis(node)] <= selection.POSITIONS


def _axis(node: Node) -> int:
    return Arguments(node.op, PARAMETERS, node.operands).axis("axis", node["x"].type.rank)


def _lower(node: Node, lowering: Lowering) -> None:
    """The largest or smallest element, then its first position."""
    axis, result = _axis(node), lowering.result(node.output)
    source = lowering.compact(lowering.read(node["x"]))
    shape = selection.reduced(source.shape, axis)
    with written_as(lowering, result, shape) as target:
        best = selection.extreme(lowering, source, axis, node.op == "reduce_argmin")
        selection.first_position(lowering, target, source, best, axis)


def _op(name: str, function: Callable[..., np.ndarray]) -> Op:
    rules = (selection.at_most_five_dimensions, exact_positions)
    return Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function), rules=rules,
              lower=_lower, gradient=stopped, fewer=along(PARAMETERS))


OPS = (_op("reduce_argmax", np.argmax), _op("reduce_argmin", np.argmin))
