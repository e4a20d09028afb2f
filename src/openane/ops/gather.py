"""gather, gather_along_axis and gather_nd: elements of x at constant positions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.fewer import picked
from openane.ops.gradients import Backward, gathered_back, only, reshaped, taken_back
from openane.ops.indexing import few
from openane.ops.lowering import Lowering
from openane.ops.movement import constant_indices, few_positions, select, take_positions, within
from openane.ops.operands import ELEMENTS, INDICES, Arguments, refusal
from openane.ops.rules import MOVED
from openane.ops.spec import Movement, Op, Parameter, Upstream

VALIDATE = Parameter("validate_indices", const=True, default=False, kind="bool")
GATHER = (
    Parameter("x"),
    Parameter("indices", kind="index"),
    Parameter("axis", const=True, default=0, kind="int32"),
    Parameter("batch_dims", const=True, default=0, kind="int32"),
    VALIDATE,
)
ALONG = (Parameter("x"), Parameter("indices", kind="index"), Parameter("axis", const=True, default=0, kind="int32"),
         VALIDATE)
ND = (Parameter("x"), Parameter("indices", kind="index"), Parameter("batch_dims", const=True, default=0, kind="int32"),
      VALIDATE)


def _gather(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("gather", GATHER, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    indices = arguments.tensor("indices", INDICES)
    axis, batch = _gather_axes(arguments, x, indices)
    _in_range("gather", indices, x.shape[axis])
    return (TensorType(x.dtype, (*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1:])),)


def _gather_axes(arguments: Arguments, x: Value, indices: Value) -> tuple[int, int]:
    axis = arguments.axis("axis", x.type.rank)
    batch = arguments.integer("batch_dims", 0, min(axis, indices.type.rank))
    if x.shape[:batch] != indices.shape[:batch]:
        raise refusal("gather", "indices", f"must begin with the {batch} batch dimensions of x {list(x.shape)}",
                      list(indices.shape))
    return axis, batch


def _in_range(op: str, indices: Value, extent: int) -> None:
    if indices.constant:
        within(op, "indices", indices.array(), extent)


def _gather_array(*, x: np.ndarray, indices: np.ndarray, axis: np.ndarray, batch_dims: np.ndarray,
                  validate_indices: np.ndarray) -> tuple[np.ndarray, ...]:
    along, batch = int(axis) % x.ndim, int(batch_dims)
    at = indices.astype(np.int64)
    if batch == 0:
        return (np.take(x, at, along),)
    shape = (*x.shape[:along], *at.shape[batch:], *x.shape[along + 1:])
    rows, vectors = x.reshape(-1, *x.shape[batch:]), at.reshape(-1, *at.shape[batch:])
    parts = [np.take(row, vector, along - batch) for row, vector in zip(rows, vectors, strict=True)]
    return (np.stack(parts).reshape(shape),)


def _gather_positions(node: Node) -> np.ndarray:
    arguments = Arguments("gather", GATHER, node.operands)
    x = node["x"]
    axis, batch = _gather_axes(arguments, x, node["indices"])
    return _gather_array(x=np.arange(x.type.elements).reshape(x.shape), indices=node["indices"].array(),
                         axis=np.asarray(axis), batch_dims=np.asarray(batch), validate_indices=np.asarray(False))[0]


def _lower_gather(node: Node, lowering: Lowering) -> None:
    arguments = Arguments("gather", GATHER, node.operands)
    x, indices = node["x"], node["indices"]
    axis, batch = _gather_axes(arguments, x, indices)
    tensor = lowering.native(x)
    if batch:
        take_positions(lowering, node.output, tensor, _gather_positions(node))
    else:
        at = within("gather", "indices", indices.array(), x.shape[axis])
        select(lowering, node.output, tensor, {axis: at.ravel()})


def _along(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("gather_along_axis", ALONG, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    indices = arguments.tensor("indices", INDICES)
    axis = arguments.axis("axis", x.type.rank)
    other = [extent for d, extent in enumerate(indices.shape) if d != axis]
    if indices.type.rank != x.type.rank or other != [extent for d, extent in enumerate(x.shape) if d != axis]:
        raise refusal("gather_along_axis", "indices", f"must have the shape of x {list(x.shape)} but for axis {axis}",
                      list(indices.shape))
    _in_range("gather_along_axis", indices, x.shape[axis])
    return (TensorType(x.dtype, indices.shape),)


def _along_array(*, x: np.ndarray, indices: np.ndarray, axis: np.ndarray,
                 validate_indices: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.take_along_axis(x, indices.astype(np.int64), int(axis)),)


def _along_positions(node: Node) -> np.ndarray:
    axis = Arguments("gather_along_axis", ALONG, node.operands).axis("axis", node["x"].type.rank)
    x = node["x"]
    return _along_array(x=np.arange(x.type.elements).reshape(x.shape), indices=node["indices"].array(),
                        axis=np.asarray(axis), validate_indices=np.asarray(False))[0]


def common_vector(indices: np.ndarray, axis: int) -> np.ndarray | None:
    """The indices along `axis` when they are the same at all positions of the other dimensions, else None."""
    rows = np.moveaxis(indices, axis, -1).reshape(-1, indices.shape[axis])
    return rows[0] if (rows == rows[0]).all() else None


def _lower_along(node: Node, lowering: Lowering) -> None:
    axis = Arguments("gather_along_axis", ALONG, node.operands).axis("axis", node["x"].type.rank)
    extent = node["x"].shape[axis]
    vector = common_vector(within(node.op, "indices", node["indices"].array(), extent), axis)
    tensor = lowering.native(node["x"])
    if vector is not None:
        select(lowering, node.output, tensor, {axis: vector})
    else:
        take_positions(lowering, node.output, tensor, _along_positions(node))


def _nd(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("gather_nd", ND, operands)
    x = arguments.tensor("x", ELEMENTS, (1, 8))
    indices = arguments.tensor("indices", INDICES, (1, 8))
    batch = arguments.integer("batch_dims", 0, min(x.type.rank, indices.type.rank) - 1)
    depth = indices.shape[-1]
    if depth > x.type.rank - batch or x.shape[:batch] != indices.shape[:batch]:
        raise refusal("gather_nd", "indices", f"must end with at most {x.type.rank - batch} positions and begin with "
                      f"the batch dimensions of x {list(x.shape[:batch])}", list(indices.shape))
    if indices.constant:
        for i in range(depth):
            within("gather_nd", "indices", indices.array()[..., i], x.shape[batch + i])
    return (TensorType(x.dtype, (*indices.shape[:-1], *x.shape[batch + depth:])),)


def _nd_array(*, x: np.ndarray, indices: np.ndarray, batch_dims: np.ndarray,
              validate_indices: np.ndarray) -> tuple[np.ndarray, ...]:
    batch = int(batch_dims)
    grid = np.ix_(*(np.arange(extent) for extent in indices.shape[:-1])) if batch else ()
    at = (*grid[:batch], *np.moveaxis(indices.astype(np.int64), -1, 0))
    return (np.asarray(x[at]),)


def _nd_positions(node: Node) -> np.ndarray:
    batch = Arguments("gather_nd", ND, node.operands).integer("batch_dims")
    x = node["x"]
    return _nd_array(x=np.arange(x.type.elements).reshape(x.shape), indices=node["indices"].array(),
                     batch_dims=np.asarray(batch), validate_indices=np.asarray(False))[0]


def _lower_nd(node: Node, lowering: Lowering) -> None:
    take_positions(lowering, node.output, lowering.native(node["x"]), _nd_positions(node))


POSITIONS = {"gather": _gather_positions, "gather_along_axis": _along_positions, "gather_nd": _nd_positions}


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Every element of x gets what its copies got: a product with the constant matrix that says which those are."""
    x, indices, given = node["x"], node["indices"], only(upstream)
    if not indices.constant:
        raise backward.refuse("the gradient is known for constant indices",
                              "multiply the rows of x with a one-hot matrix made by the host (matmul)")
    if node.op != "gather" or Arguments("gather", GATHER, node.operands).integer("batch_dims"):
        return {"x": taken_back(backward, given, x.shape, POSITIONS[node.op](node))}
    axis, _ = _gather_axes(Arguments("gather", GATHER, node.operands), x, indices)
    at = within("gather", "indices", indices.array(), x.shape[axis]).ravel()
    rows = reshaped(backward, given, (*x.shape[:axis], len(at), *x.shape[axis + 1:]))
    return {"x": gathered_back(backward, rows, axis, at, x.shape[axis])}


def _rows(node: Node) -> int:
    """The dimension that positions count."""
    return _gather_axes(Arguments("gather", GATHER, node.operands), node["x"], node["indices"])[0]


def few_runs(node: Node, limits: Limits) -> bool:
    """Constant indices must run in ranges or repeat, so that few strided copies make the result."""
    if not node["indices"].constant:
        return True
    if node.op == "gather" and few(node["indices"].array().astype(np.int64).ravel()):
        return True
    return few_positions(node["x"].shape, POSITIONS[node.op](node))


RULES = (*MOVED, constant_indices, few_runs)
OPS = (
    Op("gather", GATHER, _gather, _gather_array, rules=RULES, lower=_lower_gather, gradient=_gradient,
       moves=Movement.MIX, weights=("x",), positions="indices", channels_of={"x": _rows}, fewer=picked),
    Op("gather_along_axis", ALONG, _along, _along_array, rules=RULES, lower=_lower_along, gradient=_gradient,
       moves=Movement.MIX, positions="indices"),
    Op("gather_nd", ND, _nd, _nd_array, rules=RULES, lower=_lower_nd, gradient=_gradient,
       moves=Movement.MIX, positions="indices"),
)
