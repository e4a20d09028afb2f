"""reverse: dimensions backwards; reverse_sequence: the first lengths[i] elements backwards, i along another axis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType
from openane.ops.fewer import along
from openane.ops.gradients import Backward, only
from openane.ops.lowering import Lowering
from openane.ops.movement import constant_indices, few_positions, select, take_positions
from openane.ops.operands import ELEMENTS, Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

PARAMETERS = (Parameter("x"), Parameter("axes", const=True, default=None, kind="int32"))
SEQUENCE = (
    Parameter("x"),
    Parameter("lengths", kind="index"),
    Parameter("seq_axis", const=True, default=0, kind="int32"),
    Parameter("batch_axis", const=True, default=0, kind="int32"),
)


def _axes(operands: Mapping[str, Operand]) -> tuple[int, ...]:
    arguments = Arguments("reverse", PARAMETERS, operands)
    rank = arguments.tensor("x", ELEMENTS, (1, 8)).type.rank
    axes = arguments.axes("axes", rank)
    return tuple(range(rank)) if axes is None else axes


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    _axes(operands)
    return (Arguments("reverse", PARAMETERS, operands).tensor("x", ELEMENTS).type,)


def _reference(*, x: np.ndarray, axes: np.ndarray | None) -> tuple[np.ndarray, ...]:
    return (np.flip(x, None if axes is None else tuple(int(axis) for axis in axes)),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Strides cannot be negative: blocks are copied in reverse order, after their elements."""
    tensor = lowering.native(node["x"])
    select(lowering, node.output, tensor, {axis: np.arange(tensor.shape[axis])[::-1] for axis in _axes(node.operands)})


def _sequence(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("reverse_sequence", SEQUENCE, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    along = arguments.axis("seq_axis", x.type.rank)
    batch = arguments.axis("batch_axis", x.type.rank)
    lengths = arguments.tensor("lengths", ELEMENTS, (1, 1))
    if lengths.shape != (x.shape[batch],):
        raise refusal("reverse_sequence", "lengths", f"must hold {x.shape[batch]} numbers", lengths.type)
    if lengths.constant and not ((lengths.array() >= 0) & (lengths.array() <= x.shape[along])).all():
        raise refusal("reverse_sequence", "lengths", f"must hold numbers from 0 to {x.shape[along]}",
                      lengths.array().tolist()[:16])
    return (x.type,)


def _sequence_array(*, x: np.ndarray, lengths: np.ndarray, seq_axis: np.ndarray,
                    batch_axis: np.ndarray) -> tuple[np.ndarray, ...]:
    shape = [1] * x.ndim
    along, batch = int(seq_axis) % x.ndim, int(batch_axis) % x.ndim
    shape[along] = x.shape[along]
    steps = np.arange(x.shape[along]).reshape(shape)
    shape = [1] * x.ndim
    shape[batch] = x.shape[batch]
    limits = lengths.astype(np.int64).reshape(shape)
    at = np.where(steps < limits, limits - 1 - steps, steps)
    return (np.take_along_axis(x, np.broadcast_to(at, x.shape), along),)


def _positions(node: Node) -> np.ndarray:
    arguments = Arguments("reverse_sequence", SEQUENCE, node.operands)
    shape = node["x"].shape
    return _sequence_array(x=np.arange(node["x"].type.elements).reshape(shape), lengths=node["lengths"].array(),
                           seq_axis=np.asarray(arguments.axis("seq_axis", len(shape))),
                           batch_axis=np.asarray(arguments.axis("batch_axis", len(shape))))[0]


def few_runs(node: Node, limits: Limits) -> bool:
    """Constant indices must run in ranges or repeat, so that few strided copies make the result."""
    return not node["lengths"].constant or few_positions(node["x"].shape, _positions(node))


def _lower_sequence(node: Node, lowering: Lowering) -> None:
    take_positions(lowering, node.output, lowering.native(node["x"]), _positions(node))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    return {"x": backward.single("reverse", x=only(upstream), axes=list(_axes(node.operands)))}


def _sequence_gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """The same elements backwards again."""
    rank = node["x"].type.rank
    arguments = Arguments("reverse_sequence", SEQUENCE, node.operands)
    return {"x": backward.single("reverse_sequence", x=only(upstream), lengths=node["lengths"],
                                 seq_axis=arguments.axis("seq_axis", rank),
                                 batch_axis=arguments.axis("batch_axis", rank))}


OPS = (
    Op("reverse", PARAMETERS, _infer, _reference, rules=MOVED, lower=_lower, gradient=_gradient,
       moves=Movement.ORDER, fewer=along(PARAMETERS)),
    Op("reverse_sequence", SEQUENCE, _sequence, _sequence_array, rules=(*MOVED, constant_indices, few_runs),
       lower=_lower_sequence, gradient=_sequence_gradient, moves=Movement.ORDER),
)
