"""constexpr_lut_to_dense: palettised weights, entries of a table by index; and constexpr_lut_to_sparse, the same for
the elements a mask names.

Two forms. With `shape`: one table of 2 to 256 numbers, indices of 1, 2, 4, 6 or 8 bits packed into bytes. Without:
indices of the weights' rank, one table per block of them, whose entries may be vectors along `vector_axis`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from openane.graph import Operand, TensorType
from openane.ops.compressed import (
    ANY,
    BYTES,
    INDICES,
    RULES,
    elements,
    looked_up,
    lower_constant,
    lut_axis,
    masked,
    require_size,
    stated_shape,
    unpacked,
)
from openane.ops.operands import Arguments, refusal
from openane.ops.spec import Op, OperationEvidence, Parameter
from openane.rounding import ceil_div

DENSE = (Parameter("indices", kind="own"), Parameter("lut", kind="own"),
         Parameter("shape", const=True, default=None, kind="own"),
         Parameter("vector_axis", const=True, default=None, kind="int32"))
SPARSE = (Parameter("indices_mask", kind="own"), Parameter("indices_nonzero_data", kind="own"),
          Parameter("lut", kind="own"), Parameter("vector_axis", const=True, default=None, kind="int32"))
PACKED_ENTRIES = (2, 4, 16, 64, 256)
MASKS = (*BYTES, "bool")


def _infer_dense(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_lut_to_dense", DENSE, operands)
    indices, lut = arguments.tensor("indices", INDICES), arguments.tensor("lut", ANY)
    if arguments.given("shape"):
        shape = stated_shape(arguments)
        if lut.type.rank != 1 or lut.shape[0] not in PACKED_ENTRIES:
            raise refusal(arguments.op, "lut", f"must be a vector of {', '.join(map(str, PACKED_ENTRIES))} entries",
                          lut.type)
        require_size(arguments, "indices", indices, ceil_div(_bits(lut.shape[0]) * elements(shape), 8))
        return (TensorType(lut.dtype, shape),)
    axis = lut_axis(arguments, indices.shape, lut)
    return (TensorType(lut.dtype, _lengthened(indices.shape, axis, lut.shape[-1])),)


def _bits(entries: int) -> int:
    return entries.bit_length() - 1


def _lengthened(shape: tuple[int, ...], axis: int | None, vector: int) -> tuple[int, ...]:
    return tuple(extent * vector if d == axis else extent for d, extent in enumerate(shape))


def _dense(*, indices: np.ndarray, lut: np.ndarray, shape: np.ndarray | None,
           vector_axis: np.ndarray | None) -> tuple[np.ndarray, ...]:
    if shape is None:
        return (looked_up(indices, lut, _axis(vector_axis)),)
    extents = tuple(int(extent) for extent in shape)
    return (lut[unpacked(indices, _bits(lut.size), elements(extents))].reshape(extents),)


def _axis(vector_axis: np.ndarray | None) -> int | None:
    return None if vector_axis is None else int(vector_axis)


def _infer_sparse(operands: Mapping[str, Operand]) -> tuple[TensorType, ...]:
    arguments = Arguments("constexpr_lut_to_sparse", SPARSE, operands)
    mask, data = arguments.tensor("indices_mask", MASKS), arguments.tensor("indices_nonzero_data", INDICES, (1, 1))
    lut = arguments.tensor("lut", ANY)
    vector, axis = lut.shape[-1] if lut.type.rank else 1, lut_axis(arguments, mask.shape, lut)
    return (TensorType(mask.dtype, _lengthened(mask.shape, axis, vector)),
            TensorType(lut.dtype, (data.shape[0] * vector,)))


def _sparse(*, indices_mask: np.ndarray, indices_nonzero_data: np.ndarray, lut: np.ndarray,
            vector_axis: np.ndarray | None) -> tuple[np.ndarray, ...]:
    axis, vector = _axis(vector_axis), lut.shape[-1]
    dense = looked_up(masked(indices_nonzero_data, indices_mask), lut, axis)
    mask = indices_mask if vector == 1 else np.repeat(indices_mask, vector, axis)
    return mask, np.resize(dense[mask != 0], indices_nonzero_data.size * vector)


OPS = (Op("constexpr_lut_to_dense", DENSE, _infer_dense, _dense, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED),
       Op("constexpr_lut_to_sparse", SPARSE, _infer_sparse, _sparse, rules=RULES, lower=lower_constant,
          evidence=OperationEvidence.FOLDED))
