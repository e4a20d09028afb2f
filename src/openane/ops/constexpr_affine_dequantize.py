"""constexpr_affine_dequantize: scale * (quantized_data - zero_point), scale and zero point one number or one per
position of `axis`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.compressed import BYTES, FLOATS, RULES, lower_constant, shifted
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Op, OperationEvidence, Parameter

PARAMETERS = (Parameter("quantized_data", kind="own"), Parameter("zero_point", kind="own"),
              Parameter("scale", kind="own"), Parameter("axis", const=True, kind="int32"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_affine_dequantize", PARAMETERS, operands)
    data, scale = arguments.tensor("quantized_data", BYTES), arguments.tensor("scale", FLOATS, (0, 1))
    zero = arguments.tensor("zero_point", (*BYTES, "fp16", "fp32"), (0, 1))
    if data.type.rank < 1:
        raise refusal(arguments.op, "quantized_data", "must have at least one dimension", data.type)
    extent = data.shape[arguments.axis("axis", data.type.rank)]
    for name, value in (("scale", scale), ("zero_point", zero)):
        if value.shape not in ((), (extent,)):
            raise refusal(arguments.op, name, f"must be one number or a vector of {extent}", value.type)
    return (TensorType(scale.dtype, data.shape),)


def along(values: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A scalar, or a vector laid along one axis, as a tensor of `rank` dimensions."""
    return values.reshape(tuple(values.size if d == axis % rank else 1 for d in range(rank)))


def _reference(*, quantized_data: np.ndarray, zero_point: np.ndarray, scale: np.ndarray,
               axis: np.ndarray) -> tuple[np.ndarray, ...]:
    rank = quantized_data.ndim
    return (shifted(quantized_data, along(scale, int(axis), rank), along(zero_point, int(axis), rank)),)


OPS = (Op("constexpr_affine_dequantize", PARAMETERS, _infer, _reference, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED),)
