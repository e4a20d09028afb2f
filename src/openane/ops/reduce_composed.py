"""Reductions built from others: reduce_sum_square, reduce_l1_norm, reduce_l2_norm, reduce_log_sum,
reduce_log_sum_exp; and reduce_prod, as a tree of products, for the engine has no reduction that multiplies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

import numpy as np

from openane.chips import Limits
from openane.engine import Activation, Post, Root
from openane.graph import Node, Operand, TensorType, Value
from openane.ops import tables
from openane.ops.fewer import along
from openane.ops.gradients import Backward, only, over_norm, product, reshaped
from openane.ops.lowering import Lowering
from openane.ops.operands import NUMBERS, Arguments
from openane.ops.reduce import PARAMETERS, reduced_shape
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE, MOVED
from openane.ops.shaped import written_as
from openane.ops.spec import Op, Rule, Upstream
from openane.ops.written_exponentials import LONGEST, log_sum_of

Function = Callable[..., np.ndarray]


def _infer(operands: Mapping[str, Operand], *, name: str) -> tuple[TensorType, ...]:
    arguments = Arguments(name, PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    return (TensorType(x.dtype, reduced_shape(x.shape, _axes(arguments, x), arguments.flag("keep_dims"))),)


def _axes(arguments: Arguments, x: Value) -> tuple[int, ...]:
    axes = arguments.axes("axes", x.type.rank)
    return tuple(range(x.type.rank)) if axes is None else axes


def _reference(*, function: Function, x: np.ndarray, axes: np.ndarray | None,
               keep_dims: np.ndarray) -> tuple[np.ndarray, ...]:
    over = tuple(range(x.ndim)) if axes is None else tuple(int(axis) for axis in axes)
    return (np.asarray(function(x.astype(np.float64), axis=over, keepdims=bool(keep_dims))).astype(x.dtype),)


def _log_sum_exp(x: np.ndarray, *, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    largest = x.max(axis=axis, keepdims=True)
    total: np.ndarray = np.log(np.exp(x - largest).sum(axis=axis, keepdims=True)) + largest
    return total if keepdims else total.squeeze(axis)


FUNCTIONS: Mapping[str, Function] = {
    "reduce_l1_norm": lambda x, **settings: np.abs(x).sum(**settings),
    "reduce_l2_norm": lambda x, **settings: np.sqrt(np.square(x).sum(**settings)),
    "reduce_log_sum": lambda x, **settings: np.log(x.sum(**settings)),
    "reduce_log_sum_exp": _log_sum_exp,
    "reduce_prod": np.prod,
    "reduce_sum_square": lambda x, **settings: np.square(x).sum(**settings),
}


def _lower_squares(node: Node, lowering: Lowering) -> None:
    """One reduction of squares. The norm's is closed by a reciprocal root, so that the sum itself is never an fp16
    number, and a table takes the reciprocal back: 0 gives infinity and then 0."""
    source, result = lowering.read(node["x"]), lowering.result(node.output)
    axes = _axes(Arguments(node.op, PARAMETERS, node.operands), node["x"])
    shape = reduced_shape(source.shape, axes, True)
    norm = node.op == "reduce_l2_norm"
    with written_as(lowering, result, shape) as final:
        target = lowering.scratch(shape) if norm else final
        lowering.reduce(target, source, axes, square=True, root=Root.RSQRT if norm else Root.NONE)
        if norm:
            lowering.copy(target, final, Post(activation=Activation.TABLE), tables.inverse())


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """|x| or the logarithm around a sum; exponentials are of what lies below the maximum, so none overflows."""
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    x, keep = node["x"], arguments.flag("keep_dims")
    axes = list(_axes(arguments, x))
    if node.op == "reduce_l1_norm":
        return (rewriter.single("reduce_sum", x=rewriter.single("abs", x=x), axes=axes, keep_dims=keep),)
    if node.op == "reduce_log_sum":
        return (rewriter.single("log", x=rewriter.single("reduce_sum", x=x, axes=axes, keep_dims=keep)),)
    return (_exponentials(rewriter, x, axes, keep),)


def _exponentials(rewriter: Rewriter, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """max + log(sum of exp(x - max)) over `axes`, which stay with `keep`."""
    largest = rewriter.single("reduce_max", x=x, axes=list(axes), keep_dims=True)
    below = rewriter.single("sub", x=x, y=largest)
    total = rewriter.single("reduce_sum", x=rewriter.single("exp", x=below), axes=list(axes), keep_dims=True)
    result = rewriter.single("add", x=rewriter.single("log", x=total), y=largest)
    return result if keep else rewriter.single("reshape", x=result, shape=list(reduced_shape(x.shape, axes, False)))


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """2 x of a sum of squares, x over the norm, and the softmax of a logarithm of exponentials' sum."""
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    x, axes = node["x"], list(_axes(arguments, node["x"]))
    shape = reduced_shape(x.shape, axes, True)
    given, result = (reshaped(backward, value, shape) for value in (only(upstream), node.output))
    if node.op == "reduce_sum_square":
        return {"x": product(backward, product(backward, x, 2.0), given)}
    if node.op == "reduce_l2_norm":
        return {"x": product(backward, x, over_norm(backward, given, result))}
    share = backward.single("exp", x=backward.single("sub", x=x, y=result)) if len(axes) > 1 else \
        backward.single("softmax", x=x, axis=axes[0])
    return {"x": product(backward, share, given)}


def _decompose_product(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Halves multiplied with each other until one element is left, of the reduced axes as the rows of a matrix."""
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    x, axes = node["x"], _axes(arguments, node["x"])
    kept = [axis for axis in range(x.type.rank) if axis not in axes]
    perm = [*axes, *kept]
    turned = x if perm == sorted(perm) else rewriter.single("transpose", x=x, perm=perm)
    rows = rewriter.single("reshape", x=turned,
                           shape=[prod(x.shape[axis] for axis in axes), prod(x.shape[axis] for axis in kept)])
    rest: list[Value] = []
    while (count := rows.shape[0]) > 1:
        if count % 2:
            rest.append(_rows(rewriter, rows, count - 1, 1))
        half = count // 2
        rows = rewriter.single("mul", x=_rows(rewriter, rows, 0, half), y=_rows(rewriter, rows, half, half))
    for other in rest:
        rows = rewriter.single("mul", x=rows, y=other)
    shape = reduced_shape(x.shape, axes, arguments.flag("keep_dims"))
    return (rewriter.single("reshape", x=rows, shape=list(shape)),)


def _rows(rewriter: Rewriter, matrix: Value, first: int, count: int) -> Value:
    return rewriter.single("slice_by_size", x=matrix, begin=[first, 0], size=[count, -1])


def short_sums(node: Node, limits: Limits) -> bool:
    """At most 32768 elements may be folded into one: their exponentials are summed in fp16's range."""
    arguments = Arguments(node.op, PARAMETERS, node.operands)
    return prod(node["x"].shape[axis] for axis in _axes(arguments, node["x"])) <= LONGEST


TABLES = {"reduce_log_sum": "log", "reduce_log_sum_exp": "log", "reduce_l2_norm": "sqrt"}
"""The function of one tensor each ends in."""


def _op(name: str, function: Function) -> Op:
    rules: Mapping[str, tuple[Rule, ...]] = {"reduce_log_sum_exp": (*ENGINE, short_sums), "reduce_prod": MOVED}
    apart = {"reduce_prod": _decompose_product}.get(name, _decompose)
    squares = name in ("reduce_sum_square", "reduce_l2_norm")
    return Op(name, PARAMETERS, partial(_infer, name=name), partial(_reference, function=function),
              rules=rules.get(name, ENGINE), lower=_lower_squares if squares else None,
              decompose=None if squares else apart,
              gradient=_gradient if squares or name == "reduce_log_sum_exp" else None,
              normalises=name.endswith("_norm"),
              recognise=dict.fromkeys(("log", "reduce_log_sum"), log_sum_of) if name == "reduce_log_sum_exp" else {},
              table_of=TABLES.get(name, ""), fewer=along(PARAMETERS),
              factors=(lambda node: {"x": 2.0}) if name == "reduce_sum_square" else None,
              homogeneous=(lambda node: ("x",)) if name in ("reduce_l1_norm", "reduce_l2_norm") else None)


OPS = tuple(_op(name, function) for name, function in FUNCTIONS.items())
