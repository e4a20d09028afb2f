"""scaled_dot_product_attention: softmax(query @ key^T / sqrt(E) + mask) @ value.

query [B, ..., L, E], key [B, ..., S, E], value [B, ..., S, EV]. A mask broadcasts to [B, ..., L, S]: numbers are added
to the scores, booleans say who takes part. A row in which nobody takes part gives the mean of the values (MIL leaves
it open; the formula gives no number).

Precision: weights come from tables within 0.2 % and are rounded to fp16, so where scores stay below 16 a result is
within 0.6 % of the largest value. A score of 2^k is itself an fp16 number, off by up to 2^(k - 11), and so is the
logarithm of its weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from openane.chips import Limits
from openane.graph import Node, Operand, TensorType, Value
from openane.ops.broadcast import broadcast_shape
from openane.ops.halves import LARGEST
from openane.ops.operands import FLOATS, Arguments, refusal
from openane.ops.rewriter import Rewriter
from openane.ops.rules import tensors
from openane.ops.spec import Op, Parameter

PARAMETERS = (Parameter("query"), Parameter("key"), Parameter("value"), Parameter("attn_mask", default=None))
BOUND = 30000.0
"""Scores stay below it (the product's accumulator ends at 2^15); -BOUND stands for minus infinity: its exponential
beside any score above -29980 is 0, and rows that are masked throughout stay finite."""


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("scaled_dot_product_attention", PARAMETERS, operands)
    query = arguments.tensor("query", ranks=(3, 8))
    rank = query.type.rank
    key, value = (arguments.tensor(name, (query.dtype,), (rank, rank)) for name in ("key", "value"))
    _same("key", "the leading dimensions of query", query.shape[:-2], key.shape[:-2])
    _same("key", "the embedding of query", query.shape[-1:], key.shape[-1:])
    _same("value", "the leading dimensions and the sequence of key", key.shape[:-1], value.shape[:-1])
    if arguments.given("attn_mask"):
        mask = arguments.tensor("attn_mask", (query.dtype, "bool"), (1, rank))
        scores = (*query.shape[:-1], key.shape[-2])
        if broadcast_shape("scaled_dot_product_attention", "attn_mask", scores, mask.shape) != scores:
            raise refusal("scaled_dot_product_attention", "attn_mask", f"must broadcast to {list(scores)}",
                          list(mask.shape))
    return (TensorType(query.dtype, (*query.shape[:-1], value.shape[-1])),)


def _same(operand: str, what: str, wanted: tuple[int, ...], found: tuple[int, ...]) -> None:
    if wanted != found:
        raise refusal("scaled_dot_product_attention", operand, f"must have {what}: {list(wanted)}", list(found))


def _reference(*, query: np.ndarray, key: np.ndarray, value: np.ndarray,
               attn_mask: np.ndarray | None) -> tuple[np.ndarray, ...]:
    scores = query.astype(np.float64) @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        # a finite stand-in for -infinity: rows that are masked throughout come out uniform
        scores = np.where(attn_mask, scores, -1e30) if attn_mask.dtype == np.bool_ else \
            scores + np.maximum(attn_mask.astype(np.float64), -1e30)
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return ((powers / powers.sum(axis=-1, keepdims=True) @ value).astype(value.dtype),)


def engine_operands(node: Node, limits: Limits) -> bool:
    """Query, key and value must be fp16 or fp32 (which is computed in fp16) with at most 5 dimensions."""
    mask = node.get("attn_mask")
    return all(v.type.rank <= 5 and (v is mask or v.dtype in FLOATS) for v in tensors(node))


def _decompose(node: Node, rewriter: Rewriter) -> tuple[Value, ...]:
    """Two products around a softmax; the scale goes to the operand that can take it up or is smaller."""
    query, key = node["query"], node["key"]
    scale = 1 / math.sqrt(query.shape[-1])
    if key.shape[-2] < query.shape[-2]:
        key = rewriter.single("mul", x=key, y=scale)
    else:
        query = rewriter.single("mul", x=query, y=scale)
    scores = rewriter.single("matmul", x=query, y=key, transpose_y=True)
    mask = node.get("attn_mask")
    if mask is not None:
        scores = _masked(rewriter, scores, mask)
    weights = rewriter.single("softmax", x=scores, axis=-1)
    return (rewriter.single("matmul", x=weights, y=node["value"]),)


def _masked(rewriter: Rewriter, scores: Value, mask: Value) -> Value:
    """Scores plus a mask of numbers, or at most -BOUND where a mask of booleans is false."""
    if mask.constant and mask.dtype == "bool":
        ceiling = np.where(mask.array(), LARGEST, -BOUND)
        return scores if mask.array().all() else rewriter.single("minimum", x=scores, y=ceiling)
    if mask.constant:
        return rewriter.single("add", x=scores, y=np.maximum(mask.array().astype(np.float64), -BOUND))
    if mask.dtype != "bool":
        return rewriter.single("add", x=scores, y=mask)
    spread = rewriter.single("mul", x=rewriter.single("cast", x=mask, dtype=scores.dtype), y=2 * BOUND)
    return rewriter.single("minimum", x=scores, y=rewriter.single("sub", x=spread, y=BOUND))


OPS = (Op("scaled_dot_product_attention", PARAMETERS, _infer, _reference, rules=(engine_operands,),
          decompose=_decompose, sums_products=True, table_of="exp", homogeneous=lambda node: ("value",)),)
