"""What is true of the operations that a check looks at: whether they sum products, and what constants they have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from openane.checking.numbers import usual
from openane.chips.arithmetic import QUANTUM
from openane.graph import Node, Value
from openane.ops import all_ops
from openane.ops.accuracy import ROUNDED
from openane.ops.affine import term
from openane.ops.exponents import Exponents, Relation, exponents

REAL = ("fp16", "fp32")


def dropped(product: float) -> float:
    """The relative error of a sum of products of a usual size, from rounding each to a multiple of 2^-16."""
    return float("inf") if product < QUANTUM / 2 else 0.29 * QUANTUM / product


def sums(node: Node) -> bool:
    """Whether it sums products in the accumulator."""
    op = all_ops().get(node.op)
    return op is not None and op.sums_products


def single(node: Node) -> bool:
    """Whether it is a function of one tensor, element by element."""
    op = all_ops().get(node.op)
    return op is not None and op.unary is not None


def computes_places(node: Node) -> bool:
    """Whether it reads where real numbers say that are computed, between elements too."""
    op = all_ops().get(node.op)
    where = None if op is None or not op.positions or op.fills_up else node.get(op.positions)
    return where is not None and not where.constant and where.dtype in REAL


def decides(node: Node) -> bool:
    """Whether it makes places or truth of real numbers: the place of the largest, an order, a comparison."""
    return any(value.dtype in REAL for value in node.values() if not value.constant) and \
        node.outputs[-1].dtype not in REAL


def tabled(node: Node) -> bool:
    """Whether it is a function that the engine computes by a table, which errs by more than rounding."""
    op = all_ops().get(node.op)
    bound = None if op is None or op.unary is None else op.unary.bound
    return bound is not None and (bound.absolute > ROUNDED.absolute or bound.relative > ROUNDED.relative)


def keeps_scale(node: Node) -> bool:
    """Whether its results grow as what it reads: relus, pooling."""
    return exponents(node) == Exponents(Relation.TIED, ("x",))


def adds(node: Node) -> bool:
    """Whether it is the sum or difference of two tensors."""
    x = node.get("x")
    return x is not None and term(node, x) is not None


def gain(node: Node) -> float:
    """The usual size of what an operation multiplies its one variable tensor by; 1 where it does not."""
    made = _line(node)
    return 1.0 if made is None else usual(made[0])


def constants(node: Node) -> Iterator[tuple[str, int, int]]:
    """Of every constant of real numbers its name, how many fp16 does not hold, and how many there are."""
    for name, value in node.operands.items():
        if isinstance(value, Value) and isinstance(value.data, np.ndarray) and value.data.dtype.kind == "f":
            with np.errstate(over="ignore"):
                infinite = int(np.count_nonzero(~np.isfinite(value.data.astype(np.float16, copy=False))))
            yield name, infinite, value.data.size


def offset(node: Node, result: np.ndarray) -> np.ndarray | None:
    """The constant an operation adds, in a shape that is broadcast to its `result`; None where it adds none."""
    op, bias = all_ops().get(node.op), node.get("bias")
    if op is None:
        return None
    if bias is not None and isinstance(bias.data, np.ndarray):
        return _along(bias.array().astype(np.float64), op.product.axis if op.product else -1, result)
    variable = next((value for value in node.values() if not value.constant), None)
    made = None if variable is None or term(node, variable) is None else _line(node)
    return None if made is None else made[1]


def _line(node: Node) -> tuple[np.ndarray, np.ndarray] | None:
    """What an operation of a tensor and a constant multiplies by, and what it adds; None where it is not such."""
    op, x, y = all_ops().get(node.op), node.get("x"), node.get("y")
    if op is None or op.arithmetic is None or op.arithmetic.affine is None or x is None or y is None \
            or x.constant == y.constant:
        return None
    constant = y if y.constant else x
    with np.errstate(all="ignore"):
        made = op.arithmetic.affine(constant.array().astype(np.float64), constant is y)
    return None if made is None else (np.asarray(made[0], np.float64), np.asarray(made[1], np.float64))


def _along(bias: np.ndarray, axis: int, result: np.ndarray) -> np.ndarray | None:
    """One number for each channel, counted along an axis of the result."""
    if bias.ndim != 1:
        return bias
    shape = [1] * result.ndim
    shape[axis] = bias.size
    return bias.reshape(shape) if bias.size in (1, result.shape[axis]) else None
