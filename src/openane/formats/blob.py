"""Weight files of MIL programs: blob storage version 2 (`weight.bin`).

A header of 64 bytes (u32 count, u32 version 2), then per blob a 64-byte metadata entry followed by its data:
u32 sentinel, u32 dtype code, u64 size in bytes, u64 absolute data offset, u64 padding in bits (types below one byte
are packed low bits first), 32 reserved bytes. MIL text refers to a blob by the offset of its metadata entry. Everything
is little-endian. Writers that drive the engine's private interface by hand write the same entries with lax fields (one
count for several blobs, entries not aligned, size and offset left zero); the reader takes what can be taken.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

from openane.errors import FormatError
from openane.rounding import ceil_div

ALIGNMENT = 64
SENTINEL = 0xDEADBEEF
VERSION = 2

_HEADER = struct.Struct("<II")
_ENTRY = struct.Struct("<IIQQQ")


class BlobType(NamedTuple):
    """Element type of a blob: code in the file, MIL's name, bits per element."""

    code: int
    name: str
    bits: int


BLOB_TYPES = (
    BlobType(1, "fp16", 16), BlobType(2, "fp32", 32), BlobType(3, "uint8", 8), BlobType(4, "int8", 8),
    BlobType(5, "bf16", 16), BlobType(6, "int16", 16), BlobType(7, "uint16", 16), BlobType(8, "int4", 4),
    BlobType(9, "uint1", 1), BlobType(10, "uint2", 2), BlobType(11, "uint4", 4), BlobType(12, "uint3", 3),
    BlobType(13, "uint6", 6), BlobType(14, "int32", 32), BlobType(15, "uint32", 32),
    BlobType(16, "fp8e4m3fn", 8), BlobType(17, "fp8e5m2", 8),
)
_BY_CODE = {kind.code: kind for kind in BLOB_TYPES}
_BY_NAME = {kind.name: kind for kind in BLOB_TYPES}

_LAX_BITS = {8: "int8", 16: "fp16"}
"""Byte 10 of a hand-written entry without size and offset: bits per element."""


def read_blob(data: bytes | memoryview, offset: int) -> tuple[str, memoryview]:
    """The blob whose metadata entry is at `offset` of the weight file `data`: (MIL dtype name, its bytes, not copied).

    An entry with data offset zero (lax form) owns everything behind itself up to the next entry or the end of the file.
    FormatError for a file or entry that breaks the format or reaches outside the file.
    """
    view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
    _check_header(view)
    if not ALIGNMENT <= offset <= len(view) - ALIGNMENT:
        raise FormatError("no room for a blob entry", offset=offset,
                          expected=f"an offset in {ALIGNMENT}..{len(view) - ALIGNMENT}", found=offset)
    sentinel, code, size, start, padding = _ENTRY.unpack_from(view, offset)
    if sentinel != SENTINEL:
        raise FormatError("no blob entry here", offset=offset, expected=hex(SENTINEL), found=hex(sentinel))
    if start == 0:
        return _lax(view, offset)
    kind = _BY_CODE.get(code)
    if kind is None:
        raise FormatError("unknown blob dtype", offset=offset + 4, expected="a code in 1..17", found=code)
    if start < ALIGNMENT or start > len(view) or size > len(view) - start:
        raise FormatError("blob data reaches outside the file", offset=offset + 8,
                          expected=f"at most {len(view)} bytes", found=f"{start} + {size}")
    _check_size(kind, size, padding, offset)
    return kind.name, view[start:start + size]


def _check_header(view: memoryview) -> None:
    if len(view) < ALIGNMENT:
        raise FormatError("a weight file has a 64-byte header", offset=0, expected=64, found=len(view))
    version = _HEADER.unpack_from(view, 0)[1]
    if version != VERSION:
        raise FormatError("unknown blob storage version", offset=4, expected=VERSION, found=version)


def _check_size(kind: BlobType, size: int, padding: int, offset: int) -> None:
    if kind.bits >= 8 and size % (kind.bits // 8):
        raise FormatError(f"blob size is no multiple of a {kind.name}", offset=offset + 8,
                          expected=f"a multiple of {kind.bits // 8}", found=size)
    if kind.bits < 8 and (padding > 7 or padding > 8 * size or (8 * size - padding) % kind.bits):
        raise FormatError(f"padding leaves no whole number of {kind.name} elements", offset=offset + 24,
                          expected=f"8 * {size} - padding divisible by {kind.bits}, padding at most 7", found=padding)


def _lax(view: memoryview, offset: int) -> tuple[str, memoryview]:
    name = _LAX_BITS.get(view[offset + 10])
    if name is None:
        raise FormatError("blob entry without a data offset", offset=offset + 16,
                          expected="a data offset, or 8 or 16 bits per element in byte 10 of the entry",
                          found=view[offset + 10])
    data = view[offset + ALIGNMENT:]
    end = bytes(data).find(SENTINEL.to_bytes(4, "little"))
    data = data[:end] if end >= 0 else data
    return name, data[:len(data) // 2 * 2] if name == "fp16" else data


class BlobWriter:
    """Collects blobs and lays them out as one weight file. With `once`, equal blobs share one entry."""

    def __init__(self, once: bool = False) -> None:
        self._parts: list[bytes | memoryview] = []
        self._length = ALIGNMENT
        self._count = 0
        self._known: dict[tuple[str, int, bytes], int] | None = {} if once else None

    def __len__(self) -> int:
        """Number of blobs."""
        return self._count

    def add(self, dtype: str, data: bytes | memoryview, elements: int | None = None) -> int:
        """Appends a blob of MIL dtype `dtype` and returns the offset of its entry, which MIL text refers to.

        `data` is little-endian and C-contiguous, types below one byte packed low bits first; `elements` is needed for
        those (their count cannot be told from the bytes). The bytes are not copied before `finish`.
        FormatError for a dtype that has no code and for a size that does not fit.
        """
        kind = _BY_NAME.get(dtype)
        if kind is None:
            raise FormatError("dtype cannot be stored in a weight file",
                              expected=", ".join(_BY_NAME), found=dtype)
        view = memoryview(data).cast("B") if isinstance(data, memoryview) else memoryview(data)
        count = view.nbytes * 8 // kind.bits if elements is None else elements
        padding = 8 * view.nbytes - count * kind.bits
        if not 0 <= padding < 8 or (kind.bits >= 8 and padding):
            raise FormatError(f"{count} elements of {dtype} do not fill the data",
                              expected=f"{ceil_div(count * kind.bits, 8)} bytes", found=view.nbytes)
        key = (dtype, count, blake2b(view).digest()) if self._known is not None else None
        if self._known is not None and key in self._known:
            return self._known[key]
        gap = -self._length % ALIGNMENT
        offset = self._length + gap
        entry = _ENTRY.pack(SENTINEL, kind.code, view.nbytes, offset + ALIGNMENT, padding).ljust(ALIGNMENT, b"\0")
        self._parts += [bytes(gap), entry, view]
        self._length = offset + ALIGNMENT + view.nbytes
        self._count += 1
        if self._known is not None and key is not None:
            self._known[key] = offset
        return offset

    def finish(self) -> bytes:
        """The whole file."""
        return b"".join([_HEADER.pack(self._count, VERSION).ljust(ALIGNMENT, b"\0"), *self._parts])
