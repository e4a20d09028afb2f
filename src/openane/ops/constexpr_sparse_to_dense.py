"""constexpr_sparse_to_dense: weights of which only those a mask names are stored.

With `shape` the mask is packed into bytes, low bits first; without it the mask has the weights' shape.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.compressed import (
    ANY,
    BYTES,
    RULES,
    elements,
    lower_constant,
    masked,
    require_size,
    stated_shape,
    unpacked,
)
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Op, OperationEvidence, Parameter
from openane.rounding import ceil_div

PARAMETERS = (Parameter("nonzero_data", kind="own"), Parameter("mask", kind="own"),
              Parameter("shape", const=True, default=None, kind="own"))


def _infer(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_sparse_to_dense", PARAMETERS, operands)
    data, mask = arguments.tensor("nonzero_data", ANY, (1, 1)), arguments.tensor("mask", (*BYTES, "bool"))
    shape = mask.shape
    if arguments.given("shape"):
        shape = stated_shape(arguments)
        if mask.dtype != "uint8":
            raise refusal(arguments.op, "mask", "must be bytes of bits, uint8, when shape is given", mask.type)
        require_size(arguments, "mask", mask, ceil_div(elements(shape), 8))
    if mask.constant:
        bits = mask.array() if not arguments.given("shape") else unpacked(mask.array(), 1, elements(shape))
        require_size(arguments, "nonzero_data", data, max(1, int(np.count_nonzero(bits))))
    return (TensorType(data.dtype, shape),)


def _reference(*, nonzero_data: np.ndarray, mask: np.ndarray, shape: np.ndarray | None) -> tuple[np.ndarray, ...]:
    if shape is None:
        return (masked(nonzero_data, mask),)
    extents = tuple(int(extent) for extent in shape)
    return (masked(nonzero_data, unpacked(mask, 1, elements(extents)).reshape(extents)),)


OPS = (Op("constexpr_sparse_to_dense", PARAMETERS, _infer, _reference, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED),)
