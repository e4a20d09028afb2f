"""Element types of model graphs: MIL's names, and the numpy types that hold them."""

from __future__ import annotations

from math import prod

import numpy as np

from openane.errors import GraphError
from openane.record_classes import dataclass

NUMPY_TYPES: dict[str, np.dtype[np.generic]] = {
    "fp16": np.dtype(np.float16), "fp32": np.dtype(np.float32), "fp64": np.dtype(np.float64),
    "int8": np.dtype(np.int8), "int16": np.dtype(np.int16), "int32": np.dtype(np.int32), "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint8), "uint16": np.dtype(np.uint16), "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64), "bool": np.dtype(np.bool_),
    "int4": np.dtype(np.int8), "uint1": np.dtype(np.uint8), "uint2": np.dtype(np.uint8), "uint3": np.dtype(np.uint8),
    "uint4": np.dtype(np.uint8), "uint6": np.dtype(np.uint8),
}
"""Types of fewer than 8 bits, which only compressed weights have, are held one element per byte."""

_NAMES = {dtype: name for name, dtype in reversed(NUMPY_TYPES.items())}
"""MIL's names of numpy's types: of types that hold several, the first."""

PACKED_BITS = {"int4": 4, "uint1": 1, "uint2": 2, "uint3": 3, "uint4": 4, "uint6": 6}
"""Bits per element of the types that files pack into bytes."""

DTYPES = frozenset(["string", "bf16", "fp8e4m3fn", "fp8e5m2", *NUMPY_TYPES])
"""Every element type MIL has."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A static tensor type: MIL dtype name and shape (rank 0 to 5 for tensors the engine touches)."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def __str__(self) -> str:
        return f"tensor<{self.dtype}, [{', '.join(map(str, self.shape))}]>"


def numpy_type(dtype: str) -> np.dtype[np.generic]:
    """The numpy type that holds MIL dtype `dtype`. GraphError when there is none."""
    if dtype not in NUMPY_TYPES:
        raise GraphError(f"dtype {dtype!r} is not one of {', '.join(NUMPY_TYPES)}")
    return NUMPY_TYPES[dtype]


def limits(dtype: str) -> tuple[int, int]:
    """Lowest and highest number of the integer type `dtype`."""
    bits = PACKED_BITS.get(dtype, numpy_type(dtype).itemsize * 8)
    return (0, 2**bits - 1) if dtype.startswith("u") else (-2**(bits - 1), 2**(bits - 1) - 1)


def mil_type(dtype: np.dtype[np.generic]) -> str:
    """The MIL name of a numpy type. GraphError when there is none."""
    name = _NAMES.get(dtype)
    if name is None:
        raise GraphError(f"numpy type {dtype} has no MIL name")
    return name
