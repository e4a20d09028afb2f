"""tile: x repeated reps[i] times along dimension i."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import repeated
from openane.ops.gradients import Backward, only, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import ELEMENTS, Arguments
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, OperationEvidence, Parameter, Upstream

PARAMETERS = (Parameter("x"), Parameter("reps", const=True, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("tile", PARAMETERS, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    reps = arguments.vector("reps", (1,) * x.type.rank, minimum=1)
    return (TensorType(x.dtype, tuple(extent * count for extent, count in zip(x.shape, reps, strict=True))),)


def _reference(*, x: np.ndarray, reps: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.tile(x, tuple(int(count) for count in reps)),)


def _lower(node: Node, lowering: Lowering) -> None:
    """A dimension of one element repeats by stride 0; others are joined from copies, the last axis first."""
    reps = Arguments("tile", PARAMETERS, node.operands).vector("reps", (1,) * node["x"].type.rank, minimum=1)
    tensor = lowering.native(node["x"])
    for axis in reversed(range(tensor.rank)):
        if reps[axis] > 1 and tensor.shape[axis] > 1:
            shape = (*tensor.shape[:axis], tensor.shape[axis] * reps[axis], *tensor.shape[axis + 1:])
            joined = lowering.scratch(shape, None, tensor.dtype)
            lowering.join(joined, [tensor] * reps[axis], axis)
            tensor = joined
    lowering.bind(node.output, tensor.expand(node.output.shape))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The copies of each axis summed, axis by axis."""
    x, given = node["x"], only(upstream)
    reps = Arguments("tile", PARAMETERS, node.operands).vector("reps", (1,) * x.type.rank, minimum=1)
    for axis, count in enumerate(reps):
        if count == 1:
            continue
        front, back = given.shape[:axis], given.shape[axis + 1:]
        apart = reshaped(backward, given, (prod(front), count, x.shape[axis], prod(back)))
        summed = backward.single("reduce_sum", x=apart, axes=[1], keep_dims=False)
        given = reshaped(backward, summed, (*front, x.shape[axis], *back))
    return {"x": given}


OPS = (Op("tile", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, moves=Movement.REPEATS, fewer=repeated),)
