"""constexpr_cast: constants of fp16 as fp32, the same numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.compressed import RULES, lower_constant
from openane.ops.operands import Arguments
from openane.ops.spec import Op, OperationEvidence, Parameter

PARAMETERS = (Parameter("source_val", kind="own"), Parameter("output_dtype", const=True, kind="string"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_cast", PARAMETERS, operands)
    source = arguments.tensor("source_val", ("fp16",))
    return (TensorType(arguments.text("output_dtype", ("fp32",)), source.shape),)


def _reference(*, source_val: np.ndarray, output_dtype: str) -> tuple[np.ndarray, ...]:
    return (source_val.astype(np.float32),)


OPS = (Op("constexpr_cast", PARAMETERS, _infer, _reference, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED),)
