"""Operations that only change how the same elements are counted: reshape, squeeze, expand_dims, flatten2d, identity."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.gradients import Backward, only, reshaped
from openane.ops.lowering import Lowering
from openane.ops.merging import as_other
from openane.ops.operands import ELEMENTS, Arguments, normalised_axes, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

RESHAPE = (Parameter("x"), Parameter("shape", const=True, kind="int32"))
SQUEEZE = (Parameter("x"), Parameter("axes", const=True, default=None, kind="int32"))
EXPAND = (Parameter("x"), Parameter("axes", const=True, kind="int32"))
FLATTEN = (Parameter("x"), Parameter("axis", const=True, default=1, kind="int32"))
IDENTITY = (Parameter("x"),)


def _reshape(arguments: Arguments, x: Value) -> tuple[int, ...]:
    wanted = arguments.integers("shape", (), minimum=-1) or ()
    return resolve_shape("reshape", x.shape, wanted)


def resolve_shape(op: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """The shape `wanted` stands for: 0 keeps the dimension at its place, one -1 takes what is left over."""
    if 0 in wanted and len(wanted) != len(shape):
        raise refusal(op, "shape", f"may hold 0 only where it has as many dimensions as x ({len(shape)})", list(wanted))
    filled = [shape[i] if extent == 0 else extent for i, extent in enumerate(wanted)]
    total, known = prod(shape), prod(extent for extent in filled if extent != -1)
    if filled.count(-1) > 1:
        raise refusal(op, "shape", "may hold -1 once", list(wanted))
    if -1 in filled and known and total % known == 0:
        filled[filled.index(-1)] = total // known
    if prod(filled) != total or -1 in filled:
        raise refusal(op, "shape", f"must hold the {total} elements of x {list(shape)}", list(wanted))
    return tuple(filled)


def _squeeze(arguments: Arguments, x: Value) -> tuple[int, ...]:
    axes = arguments.axes("axes", x.type.rank)
    if axes is None:
        return tuple(extent for extent in x.shape if extent != 1)
    if any(x.shape[axis] != 1 for axis in axes):
        raise refusal("squeeze", "axes", "must name dimensions of 1 element", f"axes {list(axes)} of {x.type}")
    return tuple(extent for i, extent in enumerate(x.shape) if i not in axes)


def _expand(arguments: Arguments, x: Value) -> tuple[int, ...]:
    axes = arguments.integers("axes", ()) or ()
    rank = x.type.rank + len(axes)
    front = normalised_axes("expand_dims", "axes", axes, rank)
    extents = iter(x.shape)
    return tuple(1 if i in front else next(extents) for i in range(rank))


def _flatten(arguments: Arguments, x: Value) -> tuple[int, ...]:
    rank = x.type.rank
    axis = arguments.integer("axis", -rank, rank)
    axis = axis + rank if axis < 0 else axis
    return prod(x.shape[:axis]), prod(x.shape[axis:])


def _identity(arguments: Arguments, x: Value) -> tuple[int, ...]:
    return x.shape


def _infer(operands: Mapping[str, Operand], *, name: str, parameters: tuple[Parameter, ...],
           shape: Any) -> tuple[TensorType, ...]:
    arguments = Arguments(name, parameters, operands)
    x = arguments.tensor("x", ELEMENTS)
    return (TensorType(x.dtype, shape(arguments, x)),)


def _reshape_array(*, x: np.ndarray, shape: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x.reshape(resolve_shape("reshape", x.shape, tuple(int(extent) for extent in shape))),)


def _squeeze_array(*, x: np.ndarray, axes: np.ndarray | None) -> tuple[np.ndarray, ...]:
    return (np.squeeze(x, None if axes is None else tuple(int(axis) for axis in axes)),)


def _expand_array(*, x: np.ndarray, axes: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.expand_dims(x, tuple(int(axis) for axis in axes)),)


def _flatten_array(*, x: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, ...]:
    at = int(axis) + x.ndim if axis < 0 else int(axis)
    return (x.reshape(prod(x.shape[:at]), -1),)


def _identity_array(*, x: np.ndarray) -> tuple[np.ndarray, ...]:
    return (x,)


def _lower(node: Node, lowering: Lowering) -> None:
    """No operation where strides can express the new shape; otherwise data moves when it is read."""
    lowering.alias(node.output, node["x"])


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    return {"x": reshaped(backward, only(upstream), node["x"].shape)}


RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten2d", "reshape_like")


def reshape_of_reshape(node: Node, before: Node) -> Node | None:
    """One reshape in place of two."""
    return as_other(node, "reshape", before["x"], shape=node.output.shape) if before.op in RESHAPES else None


def _op(name: str, parameters: tuple[Parameter, ...], shape: Any, reference: Any) -> Op:
    return Op(name, parameters, partial(_infer, name=name, parameters=parameters, shape=shape), reference,
              rules=MOVED, lower=_lower, view=True, gradient=_gradient, moves=Movement.SHAPE,
              merge=reshape_of_reshape if name in RESHAPES else None)


OPS = (
    _op("reshape", RESHAPE, _reshape, _reshape_array),
    _op("squeeze", SQUEEZE, _squeeze, _squeeze_array),
    _op("expand_dims", EXPAND, _expand, _expand_array),
    _op("flatten2d", FLATTEN, _flatten, _flatten_array),
    _op("identity", IDENTITY, _identity, _identity_array),
)
