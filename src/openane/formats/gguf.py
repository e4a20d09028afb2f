"""What stands before the weights of a GGUF file: fields by their names, and which tensors there are and where.

A file has a magic number, a version, two counts, the fields (a name, a type, a value), the tensors (a name, dimensions
from the innermost on, a type, an offset) and, from the next multiple of its alignment on, their bytes. Everything is
little-endian, and names and texts are UTF-8 after their length in 64 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.record_classes import dataclass

MAGIC = b"GGUF"
VERSIONS = (2, 3)
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The types of fields that are numbers, as `struct` has them."""
TEXT, ARRAY = 8, 9
"""The other types of fields."""
STEP = 32
"""Bytes of which tensors begin at multiples, where no field states another."""
DIMENSIONS = 4
"""Of a tensor, at most."""
MOST = 4_000_000
"""Values in all arrays of a file, at most."""
SPAN = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of the file: its shape (outermost dimension first), the number of its type, and where its bytes begin
    behind the first tensor's."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Fields by their names, as numbers, texts and lists of either; the tensors; and where their bytes begin."""

    fields: Mapping[str, Any]
    tensors: tuple[GgufTensor, ...]
    start: int


def read_header(data: memoryview) -> GgufHeader:
    """The header of a file. FormatError with the offset where it does not follow the format or has more than `MOST`
    values in arrays, UnsupportedError for big-endian files and for arrays of arrays."""
    at = _Cursor(data)
    if bytes(data[:len(MAGIC)]) != MAGIC:
        raise at.error("the magic number is another", MAGIC, bytes(data[:len(MAGIC)]))
    at.place = len(MAGIC)
    version = at.number("I")
    if int.from_bytes(version.to_bytes(4, "big"), "little") in VERSIONS:
        raise UnsupportedError("GGUF", "big-endian files are not read",
                               remedy="convert the model for a little-endian machine")
    if version not in VERSIONS:
        raise at.error("the version is another", f"{VERSIONS[0]} or {VERSIONS[-1]}", version)
    tensors, fields = at.number("Q"), at.number("Q")
    found: dict[str, Any] = {}
    for _ in range(fields):
        name = at.text()
        if name in found:
            raise at.error(f"field {name!r} is stated twice")
        found[name] = at.value(at.number("I"))
    held: dict[str, GgufTensor] = {}
    for _ in range(tensors):
        tensor = _tensor(at)
        if tensor.name in held:
            raise at.error(f"tensor {tensor.name!r} is stated twice")
        held[tensor.name] = tensor
    step = found.get("general.alignment", STEP)
    if type(step) is not int or step <= 0 or step.bit_count() != 1:
        raise at.error("the alignment of tensors is wrong", "a power of two", step)
    return GgufHeader(found, tuple(held.values()), -(-at.place // step) * step)


def _tensor(at: _Cursor) -> GgufTensor:
    name, count = at.text(), at.number("I")
    if not 1 <= count <= DIMENSIONS:
        raise at.error(f"tensor {name!r} has another number of dimensions", f"1 to {DIMENSIONS}", count)
    shape = tuple(at.number("Q") for _ in range(count))[::-1]
    return GgufTensor(name, shape, at.number("I"), at.number("Q"))


class _Cursor:
    """A place in the bytes, which moves behind what is read; and how many values its arrays may have still."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.place, self.left = data, 0, MOST

    def error(self, message: str, expected: object = None, found: object = None) -> FormatError:
        """The FormatError at this place."""
        return FormatError(message, offset=self.place, expected=expected, found=found)

    def number(self, code: str) -> Any:
        """A number of a type of `struct`."""
        return self._numbers("<" + code)[0]

    def text(self) -> str:
        """A text after its length."""
        return self._texts(1)[0]

    def value(self, kind: int) -> Any:
        """The value of a field of a type."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        if kind != ARRAY:
            raise self.error("a field is of an unknown type", "0 to 12", kind)
        inner, count = self.number("I"), self.number("Q")
        if count > self.left:
            raise self.error("arrays have too many values", f"at most {MOST} in all", count)
        self.left -= count
        if inner == TEXT:
            return self._texts(count)
        if inner == ARRAY:
            raise UnsupportedError("GGUF", "arrays of arrays are not read")
        if inner not in NUMBERS:
            raise self.error("an array is of an unknown type", "0 to 12", inner)
        return list(self._numbers(f"<{count}{NUMBERS[inner]}"))

    def _numbers(self, codes: str) -> tuple[Any, ...]:
        try:
            found = struct.unpack_from(codes, self.data, self.place)
        except struct.error:
            raise self._outside() from None
        self.place += struct.calcsize(codes)
        return found

    def _texts(self, count: int) -> list[str]:
        """So many texts, one after the other: vocabularies have hundreds of thousands."""
        data, place, size, unpack = self.data, self.place, len(self.data), SPAN.unpack_from
        found: list[str] = []
        try:
            for _ in range(count):
                begin = place + SPAN.size
                end = begin + unpack(data, place)[0]
                if end > size:
                    raise self._outside()
                found.append(str(data[begin:end], "utf-8"))
                place = end
        except struct.error:
            raise self._outside() from None
        except UnicodeDecodeError:
            self.place = place
            raise self.error("a text is not UTF-8") from None
        self.place = place
        return found

    def _outside(self) -> FormatError:
        return self.error("what is stated here reaches beyond the end of the file", found=f"{len(self.data)} bytes",
                          expected="a longer file")
