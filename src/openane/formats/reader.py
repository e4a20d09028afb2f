"""Bounds-checked reading of little-endian bytes, and structures declared once for reading and for writing.

A `Record` is a dataclass whose fields state their bytes (`u32`, `u64`, `text`, `words`); the same declaration packs
and unpacks. A `ByteReader` is a window on a file: nothing is read outside it, and its errors name offsets in the file.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import field, fields
from functools import cache
from typing import Any, TypeVar, cast

from openane.errors import FormatError, ProgramError
from openane.record_classes import dataclass


def _item(code: str, default: object) -> Any:
    return field(default=default, metadata={"code": code})


def u8(default: int = 0) -> Any:
    """An unsigned byte."""
    return _item("B", default)


def u16(default: int = 0) -> Any:
    """An unsigned 16-bit number."""
    return _item("H", default)


def u32(default: int = 0) -> Any:
    """An unsigned 32-bit number."""
    return _item("I", default)


def u64(default: int = 0) -> Any:
    """An unsigned 64-bit number."""
    return _item("Q", default)


def u32s(count: int) -> Any:
    """`count` unsigned 32-bit numbers, as a tuple."""
    return _item(f"{count}I", (0,) * count)


def u64s(count: int) -> Any:
    """`count` unsigned 64-bit numbers, as a tuple."""
    return _item(f"{count}Q", (0,) * count)


def text(size: int) -> Any:
    """ASCII text in `size` bytes, filled up with NUL."""
    return _item(f"{size}s", "")


@dataclass(frozen=True)
class Record:
    """A fixed structure; subclasses are dataclasses whose fields are made by `u32()` and its siblings. What compares
    and shows them stands here once: `dataclass` would take as long to write it for each as for all else of one."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        pairs = zip(_layout(type(self)).items, self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for (name, _), value in pairs)})"

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name, _ in _layout(type(self)).items)

    @classmethod
    def byte_size(cls) -> int:
        """Bytes in a file."""
        return _layout(cls).structure.size

    def pack(self) -> bytes:
        """The bytes. ProgramError names the field whose value does not fit."""
        layout = _layout(type(self))
        values: list[object] = []
        for name, code in layout.items:
            value = getattr(self, name)
            values += _pack_values(value, code)
        try:
            return layout.structure.pack(*values)
        except (struct.error, UnicodeEncodeError):
            raise ProgramError(_misfit(self, layout)) from None


R = TypeVar("R", bound=Record)
Bytes = bytes | memoryview
"""Bytes in memory, or of a mapped file."""
SHORT = 256
"""Bytes in which most texts end."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a record is packed; its fields' names and codes; and among the values unpacked, where texts are and what they
    are called, and where arrays begin and end, the last one first."""

    structure: struct.Struct
    items: tuple[tuple[str, str], ...]
    texts: tuple[tuple[int, str], ...]
    arrays: tuple[tuple[int, int], ...]


@cache
def _declared(kind: Any) -> _Layout:
    items = tuple((f.name, f.metadata["code"]) for f in fields(kind))
    texts, arrays, position = [], [], 0
    for name, code in items:
        count = 1 if code.endswith("s") else int(code[:-1] or 1)
        if code.endswith("s"):
            texts.append((position, name))
        elif len(code) > 1:
            arrays.append((position, position + count))
        position += count
    return _Layout(struct.Struct("<" + "".join(code for _, code in items)), items, tuple(texts), tuple(arrays[::-1]))


def _layout(kind: type[Record]) -> _Layout:
    return _declared(cast(Hashable, kind))


def _pack_values(value: Any, code: str) -> list[object]:
    if code.endswith("s"):
        data = value.encode("ascii", "replace") if isinstance(value, str) else value
        return [data if len(data) <= int(code[:-1]) else None]
    return list(value) if isinstance(value, tuple) else [value]


def _misfit(record: Record, layout: _Layout) -> str:
    for name, code in layout.items:
        try:
            struct.pack("<" + code, *_pack_values(getattr(record, name), code))
        except struct.error:
            return f"{type(record).__name__}.{name} = {getattr(record, name)!r} does not fit its field"
    return f"{type(record).__name__} does not fit"


class ByteReader:
    """A window [start, end) of `data`. Offsets given are relative to the window, offsets in errors to the file, in
    which `data` begins at `base`."""

    __slots__ = ("_data", "base", "end", "start")

    def __init__(self, data: Bytes, start: int = 0, end: int | None = None, base: int = 0) -> None:
        self._data = data
        self.start = start
        self.end = len(data) if end is None else end
        self.base = base

    def __len__(self) -> int:
        return self.end - self.start

    def error(self, offset: int, message: str, expected: object = None, found: object = None) -> FormatError:
        """The FormatError for a byte of this window."""
        return FormatError(message, offset=self.base + self.start + offset, expected=expected, found=found)

    def check(self, offset: int, size: int, what: str) -> None:
        """FormatError unless `size` bytes from `offset` lie in the window."""
        if size < 0 or offset < 0 or offset + size > len(self):
            left = max(0, len(self) - offset) if offset >= 0 else 0
            raise FormatError(f"{what} reaches outside its container", offset=self.base + self.start + max(offset, 0),
                              expected=f"{size} bytes", found=f"{left} bytes")

    def window(self, offset: int, size: int, what: str) -> ByteReader:
        """The part of this window that holds `what`."""
        self.check(offset, size, what)
        return ByteReader(self._data, self.start + offset, self.start + offset + size, self.base)

    def take(self, offset: int, size: int, what: str) -> bytes:
        """A copy of `size` bytes."""
        return bytes(self.part(offset, size, what))

    def part(self, offset: int, size: int, what: str) -> Bytes:
        """`size` bytes; those of a mapped file stay where they are."""
        self.check(offset, size, what)
        return self._data[self.start + offset:self.start + offset + size]

    def words(self, offset: int, count: int, what: str) -> tuple[int, ...]:
        """`count` unsigned 32-bit words."""
        self.check(offset, 4 * count, what)
        return struct.unpack_from(f"<{count}I", self._data, self.start + offset)

    def u32(self, offset: int, what: str) -> int:
        """One unsigned 32-bit word."""
        return self.words(offset, 1, what)[0]

    def record(self, kind: type[R], offset: int, what: str) -> R:
        """The structure `kind` at `offset`."""
        layout = _layout(kind)
        self.check(offset, layout.structure.size, what)
        values = list(layout.structure.unpack_from(self._data, self.start + offset))
        for position, name in layout.texts:
            values[position] = self._ascii(values[position], offset, what, name)
        for start, end in layout.arrays:
            values[start:end] = [tuple(values[start:end])]
        return kind(*values)

    def string(self, offset: int, what: str, limit: int = 1 << 20) -> str:
        """The NUL-terminated UTF-8 text at `offset`, at most `limit` bytes."""
        self.check(offset, 1, what)
        start = self.start + offset
        last = min(self.end, start + limit + 1)
        found = bytes(self._data[start:min(last, start + SHORT)])
        if b"\0" not in found:
            found = bytes(self._data[start:last])
        end = found.find(b"\0")
        if end < 0:
            raise self.error(offset, f"{what} does not end", expected=f"NUL within {limit} bytes", found="none")
        try:
            return found[:end].decode()
        except UnicodeDecodeError as error:
            raise self.error(offset + error.start, f"{what} is not UTF-8", expected="UTF-8",
                             found=f"byte 0x{found[error.start]:02x}") from None

    def _ascii(self, raw: bytes, offset: int, what: str, name: str) -> str:
        try:
            return raw.rstrip(b"\0").decode("ascii")
        except UnicodeDecodeError:
            raise self.error(offset, f"{what}: {name} is not ASCII", expected="ASCII", found=repr(raw)) from None
