"""constexpr_blockwise_shift_scale: scale * (data - offset), scale and offset one number per block of data; and
constexpr_sparse_blockwise_shift_scale, the same on the elements a mask names."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType, Value
from openane.ops.compressed import ANY, BYTES, FLOATS, RULES, lower_constant, masked, require_blocks, shifted
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Op, OperationEvidence, Parameter

SCALES = (Parameter("scale", kind="own"), Parameter("offset", default=None, kind="own"))
DENSE = (Parameter("data", kind="own"), *SCALES)
SPARSE = (Parameter("data_mask", kind="own"), Parameter("nonzero_data", kind="own"), *SCALES)
MASKS = (*BYTES, "bool")


def _scale(arguments: Arguments, data: Value) -> Value:
    scale = arguments.tensor("scale", FLOATS)
    if data.type.rank < 1:
        raise refusal(arguments.op, "scale", "needs data of at least one dimension", data.type)
    require_blocks(arguments, "scale", data.shape, scale.shape)
    if arguments.given("offset") and arguments.tensor("offset", ANY).shape != scale.shape:
        raise refusal(arguments.op, "offset", f"must have scale's shape {list(scale.shape)}")
    return scale


def _infer_dense(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_blockwise_shift_scale", DENSE, operands)
    data = arguments.tensor("data", ANY)
    return (TensorType(_scale(arguments, data).dtype, data.shape),)


def _dense(*, data: np.ndarray, scale: np.ndarray, offset: np.ndarray | None) -> tuple[np.ndarray, ...]:
    return (shifted(data, scale, offset),)


def _infer_sparse(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_sparse_blockwise_shift_scale", SPARSE, operands)
    mask, data = arguments.tensor("data_mask", MASKS), arguments.tensor("nonzero_data", ANY, (1, 1))
    return mask.type, TensorType(_scale(arguments, mask).dtype, data.shape)


def _sparse(*, data_mask: np.ndarray, nonzero_data: np.ndarray, scale: np.ndarray,
            offset: np.ndarray | None) -> tuple[np.ndarray, ...]:
    dense = shifted(masked(nonzero_data, data_mask), scale, offset)
    return data_mask, np.resize(dense[data_mask != 0], nonzero_data.shape)


OPS = (Op("constexpr_blockwise_shift_scale", DENSE, _infer_dense, _dense, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED),
       Op("constexpr_sparse_blockwise_shift_scale", SPARSE, _infer_sparse, _sparse, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED))
