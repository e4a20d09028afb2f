"""reduce_sum, reduce_mean, reduce_max, reduce_min: over some axes (all when none are named)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from openane.engine import Reduce
from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import along
from openane.ops.gradients import Backward, number, only, product, reshaped, spread
from openane.ops.lowering import Lowering
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.rules import ENGINE
from openane.ops.shaped import written_as
from openane.ops.spec import Op, OperationEvidence, Parameter, Upstream

PARAMETERS = (
    Parameter("x"),
    Parameter("axes", const=True, default=None, kind="int32"),
    Parameter("keep_dims", const=True, default=False, kind="bool"),
)

Function = Callable[..., np.ndarray]


def reduced_shape(shape: Sequence[int], axes: Sequence[int], keep: bool) -> tuple[int, ...]:
    """`shape` with `axes` (counted from the front) set to 1, or dropped unless `keep`."""
    return tuple(1 if i in axes else extent for i, extent in enumerate(shape) if keep or i not in axes)


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    axes = arguments.axes("axes", x.type.rank)
    axes = tuple(range(x.type.rank)) if axes is None else axes
    return (TensorType(x.dtype, reduced_shape(x.shape, axes, arguments.flag("keep_dims"))),)


def _reference(*, function: Function, x: np.ndarray, axes: np.ndarray | None,
               keep_dims: np.ndarray) -> tuple[np.ndarray, ...]:
    over = tuple(range(x.ndim)) if axes is None else tuple(int(axis) for axis in axes)
    return (np.asarray(function(x.astype(np.float64), axis=over, keepdims=bool(keep_dims))).astype(x.dtype),)


def _lower(node: Node, lowering: Lowering) -> None:
    """One reduction; a mean is a scaled sum, a minimum the negative of the negatives' maximum."""
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    source = lowering.read(node["x"])
    axes = arguments.axes("axes", node["x"].type.rank)
    axes = tuple(range(source.rank)) if axes is None else axes
    result = lowering.result(node.output)
    shape = reduced_shape(source.shape, axes, True)
    count = source.elements / result.elements
    sign = -1.0 if node.op == "reduce_min" else 1.0
    kind = Reduce.SUM if node.op in ("reduce_sum", "reduce_mean") else Reduce.MAXIMUM
    with written_as(lowering, result, shape) as target:
        lowering.reduce(target, source, axes, kind, pre_scale=sign,
                        final_scale=1 / count if node.op == "reduce_mean" else sign)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Sums and means hand the same to every element, extremes to those that are one, in equal parts."""
    x, given = node["x"], only(upstream)
    axes = Arguments(node.op, PARAMETERS, node.operands).axes("axes", x.type.rank)
    axes = tuple(range(x.type.rank)) if axes is None else axes
    shape = reduced_shape(x.shape, axes, True)
    given = reshaped(backward, given, shape)
    if node.op == "reduce_mean":
        given = product(backward, given, node.output.type.elements / x.type.elements)
    if node.op in ("reduce_sum", "reduce_mean"):
        return {"x": spread(backward, given, x.shape)}
    best = reshaped(backward, node.output, shape)
    taken = number(backward, backward.single("equal", x=x, y=best), x.dtype)
    count = backward.single("reduce_sum", x=taken, axes=list(axes), keep_dims=True)
    return {"x": product(backward, taken, backward.single("real_div", x=given, y=count))}


def _op(name: str, function: Function) -> Op:
    return Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function), rules=ENGINE,
              lower=_lower, evidence=OperationEvidence.COMPOSED if name == "reduce_min" else OperationEvidence.APPLE,
              gradient=_gradient, fewer=along(PARAMETERS), homogeneous=lambda node: ("x",))


OPS = (_op("reduce_sum", np.sum), _op("reduce_mean", np.mean), _op("reduce_max", np.max), _op("reduce_min", np.min))
