"""matmul: x [..., M, K] times y [..., K, N], leading dimensions broadcast; a rank-1 operand is a row (x) or column (y).

`transpose_x` and `transpose_y` say that an operand is stored [..., K, M] or [..., N, K].
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops.broadcast import broadcast_shape
from openane.ops.fewer import multiplied
from openane.ops.gradients import Backward, only, reshaped, unbroadcast
from openane.ops.lowering import Lowering
from openane.ops.matrix import lower_batches, lower_columns, lower_rows
from openane.ops.operands import NUMBERS, Arguments, refusal
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Product, Upstream
from openane.ops.weights import channels_first, constant

PARAMETERS = (
    Parameter("x"), Parameter("y"),
    Parameter("transpose_x", const=True, default=False, kind="bool"),
    Parameter("transpose_y", const=True, default=False, kind="bool"),
)


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("matmul", PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    y = arguments.tensor("y", (x.dtype,), (1, 8))
    left = _matrix(x, arguments.flag("transpose_x"), "transpose_x", (1, *x.shape))
    right = _matrix(y, arguments.flag("transpose_y"), "transpose_y", (*y.shape, 1))
    if left[-1] != right[-2]:
        raise refusal("matmul", "y", f"must have {left[-1]} rows, as many as x has columns",
                      f"x {x.type} and y {y.type}, seen as {list(left)} and {list(right)}")
    batch = broadcast_shape("matmul", "y", left[:-2], right[:-2])
    rows = left[-2:-1] if x.type.rank > 1 else ()
    columns = right[-1:] if y.type.rank > 1 else ()
    return (TensorType(x.dtype, (*batch, *rows, *columns)),)


def _matrix(value: Value, transposed: bool, flag: str, promoted: tuple[int, ...]) -> tuple[int, ...]:
    if value.type.rank == 1 and transposed:
        raise refusal("matmul", flag, "must be false for an operand of rank 1", "true")
    shape = promoted if value.type.rank == 1 else value.shape
    return (*shape[:-2], shape[-1], shape[-2]) if transposed else shape


def _reference(*, x: np.ndarray, y: np.ndarray, transpose_x: np.ndarray, transpose_y: np.ndarray,
               over: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
    left = np.swapaxes(x, -1, -2) if transpose_x else x
    right = np.swapaxes(y, -1, -2) if transpose_y else y
    return (np.asarray(np.matmul(left, right, out=over)),)


def _lower(node: Node, lowering: Lowering) -> None:
    """Constant weights on either side become coefficients; two runtime operands a matrix product."""
    arguments = Arguments("matmul", PARAMETERS, node.operands)
    x, y = node["x"], node["y"]
    left, right = arguments.flag("transpose_x"), arguments.flag("transpose_y")
    single = x.type.rank > 1 and prod(x.shape[:-2]) == 1
    if y.constant and y.type.rank == 2 and (single or not left):
        lower_rows(node, lowering, x, y.array().T if right else y.array(), None, transposed=left)
    elif x.constant and x.type.rank == 2 and y.type.rank > 1 and not right:
        lower_columns(node, lowering, x.array().T if left else x.array(), y)
    else:
        lower_batches(node, lowering, x, y, left, right)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """dx = dz y^T and dy = x^T dz, operands of rank 1 as the row or column they stand for."""
    arguments = Arguments("matmul", PARAMETERS, node.operands)
    x, y, given = node["x"], node["y"], only(upstream)
    left, right = arguments.flag("transpose_x"), arguments.flag("transpose_y")
    row = reshaped(backward, x, (1, *x.shape)) if x.type.rank == 1 else x
    column = reshaped(backward, y, (*y.shape, 1)) if y.type.rank == 1 else y
    batch = broadcast_shape("matmul", "y", row.shape[:-2], column.shape[:-2])
    matrix = reshaped(backward, given, (*batch, row.shape[-1 if left else -2], column.shape[-2 if right else -1]))
    found: dict[str, Operand] = {}
    if backward.wants(x):
        slope = backward.single("matmul", x=column, y=matrix, transpose_x=right, transpose_y=True) if left else \
            backward.single("matmul", x=matrix, y=column, transpose_y=not right)
        found["x"] = reshaped(backward, unbroadcast(backward, slope, row.shape), x.shape)
    if backward.wants(y):
        found["y"] = reshaped(backward, _by_second(backward, row, column.shape, matrix, left, right), y.shape)
    return found


def _by_second(backward: Backward, x: Value, shape: tuple[int, ...], given: Value, left: bool, right: bool) -> Value:
    """The derivative by the second operand, of `shape`: one product over all rows where every matrix of x meets the
    same second operand (sums then never leave the accumulator), else a product for each and their sum."""
    if len(shape) == 2 and not left and given.shape[:-1] == x.shape[:-1]:
        rows = prod(x.shape[:-1])
        x, given = reshaped(backward, x, (rows, x.shape[-1])), reshaped(backward, given, (rows, given.shape[-1]))
    slope = backward.single("matmul", x=given, y=x, transpose_x=True, transpose_y=left) if right else \
        backward.single("matmul", x=x, y=given, transpose_x=not left)
    return unbroadcast(backward, slope, shape)


def constant_rows(node: Node) -> bool:
    """Whether rows of x are multiplied by a constant matrix: what linear does."""
    y = node["y"]
    return y.constant and y.type.rank == 2 and node["x"].type.rank > 1 and not _stated(node, "transpose_x")


def _stated(node: Node, name: str) -> bool:
    flag = node.get(name)
    return flag is not None and bool(flag.array().any())


def _linear(node: Node, name: str) -> Node | None:
    """The product as a linear node."""
    if not constant_rows(node):
        return None
    weight = node["y"].array() if _stated(node, "transpose_y") else node["y"].array().T
    return Node("linear", {"x": node["x"], "weight": constant(f"{name}_weight", weight, node["y"])}, node.outputs,
                node.name, node.source)


def _channels_last(node: Node) -> bool:
    return not _stated(node, "transpose_y")


OPS = (Op("matmul", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, product=Product(-1, _linear, channels_first, _channels_last), sums_products=True,
          over=True, factors=lambda node: {"x": 1.0, "y": 1.0}, weights=("x", "y"), fewer=multiplied, channels_of={
              "x": lambda node: -1 if _stated(node, "transpose_x") else -2,
              "y": lambda node: -2 if _stated(node, "transpose_y") else -1}),)
