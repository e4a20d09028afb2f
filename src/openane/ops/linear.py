"""linear: x [..., Din] times the transpose of weight [Dout, Din], plus bias [Dout] -> [..., Dout]."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from openane.graph import Node, Operand, TensorType, Value
from openane.ops import fewer
from openane.ops.gradients import Backward, only, reshaped
from openane.ops.half_bits import from_half
from openane.ops.lowering import Lowering
from openane.ops.matrix import lower_rows
from openane.ops.operands import NUMBERS, Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import ENGINE
from openane.ops.spec import Op, OperationEvidence, Parameter, Product, Upstream
from openane.ops.weights import as_it_is, channels_first, without

PARAMETERS = (Parameter("x"), Parameter("weight", const=True), Parameter("bias", const=True, default=None))
LARGE, PART = 1 << 20, 1 << 18
"""Numbers of a weight that is widened a part at a time, and of such a part."""


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("linear", PARAMETERS, operands)
    x = arguments.tensor("x", NUMBERS, (1, 8))
    weight = arguments.tensor("weight", (x.dtype,), (2, 2))
    if weight.shape[1] != x.shape[-1]:
        raise refusal("linear", "weight", f"must have shape [Dout, {x.shape[-1]}], x's last dimension second",
                      list(weight.shape))
    arguments.like("bias", x, (weight.shape[0],))
    return (TensorType(x.dtype, (*x.shape[:-1], weight.shape[0])),)


def _reference(*, x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, ...]:
    product = _product(x, weight)
    return (product if bias is None else np.add(product, bias, out=product),)


def _product(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """x times the transpose of a weight; of a large one in fp16 some rows at a time, which are then in float32 for as
    long as the processor's cache holds them."""
    if weight.dtype != np.float16 or x.dtype != np.float32:
        return np.asarray(x @ weight.T)
    if weight.size < LARGE:
        return np.asarray(x @ from_half(weight).T)
    result = np.empty((*x.shape[:-1], len(weight)), np.float32)
    step = max(1, PART // weight.shape[1])
    for start in range(0, len(weight), step):
        part = weight[start:start + step]
        result[..., start:start + step] = x @ from_half(part if part.flags.c_contiguous else np.asfortranarray(part)).T
    return result


def _lower(node: Node, lowering: Lowering) -> None:
    bias = Arguments("linear", PARAMETERS, node.operands).constant("bias")
    lower_rows(node, lowering, node["x"], node["weight"].array().T, bias if isinstance(bias, np.ndarray) else None)


def _fewer(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Every dimension but the last is rows."""
    x = node["x"]
    rows = fewer.reshaped(rewriter, x, (prod(x.shape[:-1]), x.shape[-1]))
    operands: dict[str, Any] = {**node.operands, "x": rows}
    return (fewer.reshaped(rewriter, rewriter.single("linear", **operands), node.output.shape),)


def _gradient(node: Node, upstream: Upstream, backward: Backward) -> Mapping[str, Operand]:
    """Products with the weight and with x; the bias got every row."""
    x, weight, bias, given = node["x"], node["weight"], node.get("bias"), only(upstream)
    found: dict[str, Operand] = {}
    if backward.wants(x):
        found["x"] = backward.single("matmul", x=given, y=weight)
    rows = reshaped(backward, given, (-1, given.shape[-1]))
    if backward.wants(weight):
        flat = reshaped(backward, x, (-1, x.shape[-1]))
        found["weight"] = backward.single("matmul", x=rows, y=flat, transpose_x=True)
    if bias is not None and backward.wants(bias):
        found["bias"] = backward.single("reduce_sum", x=rows, axes=[0], keep_dims=False)
    return found


def _computed(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """A matrix product, where the weight is no constant, and a sum with the bias."""
    bias = node.get("bias")
    if node["weight"].constant:
        result = without(node, rewriter, ("bias",))
    else:
        result = rewriter.single("matmul", x=node["x"], y=node["weight"], transpose_y=True)
    return (result if bias is None else rewriter.single("add", x=result, y=bias),)


OPS = (Op("linear", PARAMETERS, _infer, _reference, rules=ENGINE, lower=_lower, evidence=OperationEvidence.APPLE,
          gradient=_gradient, product=Product(-1, as_it_is, channels_first), sums_products=True,
          weights=("weight", "bias"), computed=_computed, widens=("weight",), fewer=_fewer,
          channels_of={"weight": lambda node: 0},
          relayout=(
              "lay out an operand anew", "features in the channels, (1, C, 1, S), and 1x1 convolutions instead of "
              "linear layers, as far as norms between them gain nothing by the other layout")),)
