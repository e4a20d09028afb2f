"""cast: the same numbers in another element type; fractions are cut off towards zero, bool is whether not zero."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Node, Operand, TensorType, numpy_type
from openane.ops.lowering import Lowering
from openane.ops.operands import Arguments
from openane.ops.rules import engine_floats, engine_rank
from openane.ops.spec import Op, Parameter

DTYPES = ("fp16", "fp32", "int8", "uint8", "int16", "uint16", "int32", "bool")
PARAMETERS = (Parameter("x"), Parameter("dtype", const=True, kind="string"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("cast", PARAMETERS, operands)
    x = arguments.tensor("x", DTYPES)
    return (TensorType(arguments.text("dtype", DTYPES), x.shape),)


def _reference(*, x: np.ndarray, dtype: str) -> tuple[np.ndarray, ...]:
    rounded = x.astype(numpy_type(dtype))
    return (rounded.astype(np.float32) if dtype == "fp16" else rounded,)


def _lower(node: Node, lowering: Lowering) -> None:
    """fp16 and fp32 are the same on the engine."""
    lowering.bind(node.output, lowering.unshaped(node["x"]), node.output.shape)


OPS = (Op("cast", PARAMETERS, _infer, _reference, rules=(engine_floats, engine_rank), lower=_lower, view=True),)
