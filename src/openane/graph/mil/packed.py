"""Elements of fewer than 8 bits, as files pack them: low bits first, numbers across byte borders included."""

from __future__ import annotations

import numpy as np

from openane.graph.types import NUMPY_TYPES, PACKED_BITS

_SIGN = {4: np.int8(8)}
"""Bit that holds the sign, by bits per element."""


def byte_count(dtype: str, elements: int) -> int:
    """Bytes that `elements` elements of MIL dtype `dtype` take in a file."""
    bits = PACKED_BITS.get(dtype, NUMPY_TYPES[dtype].itemsize * 8)
    return (elements * bits + 7) // 8


def from_bytes(data: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """The read-only array in `data`, which holds exactly `byte_count` bytes; whole bytes are not copied."""
    bits = PACKED_BITS.get(dtype)
    if bits is None:
        kind = NUMPY_TYPES[dtype]
        array = np.frombuffer(data, kind.newbyteorder("<")).astype(kind, copy=False).reshape(shape)
    else:
        count = int(np.prod(shape, dtype=np.int64))
        single = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=count * bits)
        array = np.packbits(single.reshape(count, bits), axis=1, bitorder="little")[:, :1].reshape(shape)
        if dtype.startswith("int"):
            array = np.asarray((array.astype(np.int8) ^ _SIGN[bits]) - _SIGN[bits])
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def to_bytes(array: np.ndarray, dtype: str) -> memoryview:
    """The bytes of an array of MIL dtype `dtype` in a file, little-endian; whole bytes are not copied when they are in
    order already."""
    bits = PACKED_BITS.get(dtype)
    if bits is None:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        return little.reshape(-1).view(np.uint8).data
    single = np.unpackbits(np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8), axis=1, count=bits,
                           bitorder="little")
    return np.packbits(single.reshape(-1), bitorder="little").data
