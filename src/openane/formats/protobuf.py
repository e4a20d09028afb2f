"""Protocol Buffers: messages to bytes and back, by a table of fields.

The wire format knows numbers, not names: every field is a key (number and wire type) and a value, which is a varint,
4 or 8 bytes, or a length with that many bytes. `Schema` gives the names. Fields it does not list are skipped, so a
table needs to state only what is used. Bytes and arrays of floats are not copied: they stay views of the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from openane.errors import FormatError

MAXIMUM_DEPTH = 100
"""How deeply messages may nest: the limit of the reference implementations."""

_VARINT, _EIGHT, _LENGTH, _FOUR = 0, 1, 2, 5
_WIRE = {"int": _VARINT, "bool": _VARINT, "float": _FOUR, "double": _EIGHT}
_DEFAULTS: Mapping[str, Any] = {"int": 0, "bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}
_ITEM = re.compile(r"(\w+) (\d+) (\w+)([*%]?)")


class ProtobufField(NamedTuple):
    """One field: its name, number, kind (int, bool, float, double, string, bytes, or the name of a message), whether it
    is repeated (`*`) or a map from strings (`%`), whether it is an array kept as bytes, the wire type of a value, and
    whether it is none of these but one value of a single wire type."""

    name: str
    number: int
    kind: str
    repeated: bool
    mapped: bool
    raw: bool
    wire: int
    single: bool


def _field(name: str, number: int, kind: str, mark: str) -> ProtobufField:
    return ProtobufField(name, number, kind, mark == "*", mark == "%", mark == "*" and kind in ("float", "double"),
                         _WIRE.get(kind, _LENGTH), not mark)


class Schema:
    """Fields of messages, by name and by number.

    `text` has a paragraph per message, further lines indented: `TensorType: rank 2 int; dimensions 3 Dimension*;
    attributes 4 Value%`. Enumerations are ints, and every integer type is, read as signed 64 bits.
    """

    def __init__(self, text: str) -> None:
        self.by_name: dict[str, dict[str, ProtobufField]] = {}
        self.by_number: dict[str, dict[int, ProtobufField]] = {}
        self.raw: dict[str, set[str]] = {}
        for paragraph in re.split(r"\n+(?=\w)", text.strip()):
            message, _, items = paragraph.partition(":")
            fields = [_field(name, int(number), kind, mark) for name, number, kind, mark in _ITEM.findall(items)]
            self.by_name.setdefault(message, {}).update((field.name, field) for field in fields)
            self.by_number.setdefault(message, {}).update((field.number, field) for field in fields)
            self.raw.setdefault(message, set()).update(field.name for field in fields if field.raw)


_NOTHING = Schema("")


class Message:
    """A message: fields as attributes; those that are not set read as their default (an empty message, tuple, dict)."""

    def __init__(self, schema: Schema, kind: str, **values: Any) -> None:
        self.schema, self.kind, self.fields = schema, kind, values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.fields:
            return self.fields[name]
        field = self.schema.by_name[self.kind][name]
        if field.mapped:
            return {}
        if field.raw:
            return b""
        if field.repeated:
            return ()
        return _DEFAULTS[field.kind] if field.kind in _DEFAULTS else Message(self.schema, field.kind)

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def __repr__(self) -> str:
        return f"<{self.kind} {', '.join(self.fields)}>"

    def which(self, *names: str) -> str | None:
        """The first of the fields that is set."""
        return next((name for name in names if name in self.fields), None)


def read_message(schema: Schema, kind: str, data: bytes | memoryview) -> Message:
    """The message of `kind` in `data`. FormatError with an offset where the bytes break the wire format."""
    view = memoryview(data)
    return _Reader(schema, view).message(kind, 0, len(view), 0)


def scan_fields(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, begin, end of the value) of every field of the message at `start` to `end`, whatever it is.
    FormatError as above."""
    return _Reader(_NOTHING, view).scan(start, end)


def long_fields(view: memoryview, start: int, end: int, least: int) -> Iterator[tuple[int, int, int, int]]:
    """(begin of the field, number, begin and end of the value) of every field that holds at least so many bytes, of the
    message at `start` to `end`. FormatError as above, of other fields too."""
    scan, at = _Reader(_NOTHING, view).scan, start
    while at < end:
        begin = at + 2
        if view[at] & 0x87 == _LENGTH and begin < end:  # most keys have one byte, and most lengths one or two
            length = view[at + 1]
            if length >= 0x80:
                length += (view[begin] << 7) - 0x80 if view[begin] < 0x80 else end
                begin += 1
            if length < least and begin + length <= end:
                at = begin + length
                continue
        number, wire, begin, stop = next(scan(at, end))
        if wire == _LENGTH and stop - begin >= least:
            yield at, number, begin, stop
        at = stop


class _Reader:
    def __init__(self, schema: Schema, view: memoryview) -> None:
        self.schema, self.view = schema, view

    def message(self, kind: str, start: int, end: int, depth: int) -> Message:
        if depth > MAXIMUM_DEPTH:
            raise FormatError("messages nest too deeply", offset=start, expected=f"at most {MAXIMUM_DEPTH}",
                              found="more")
        fields, values = self.schema.by_number[kind], dict[str, Any]()
        for number, wire, begin, stop in self.scan(start, end):
            field = fields.get(number)
            if field is None:
                continue
            if field.single and wire == field.wire:
                values[field.name] = self._single(field, begin, stop, depth)
            else:
                self.store(values, field, wire, begin, stop, depth)
        for name in self.schema.raw[kind]:
            if name in values:
                chunks = values[name]
                values[name] = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return Message(self.schema, kind, **values)

    def scan(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(number, wire type, begin, end of the value) of every field."""
        view, varint = self.view, self.varint
        while at < end:
            begin, key = at, view[at]
            key, at = (key, at + 1) if key < 0x80 else varint(at, end)
            number, wire = key >> 3, key & 7
            if wire == _LENGTH:
                length, at = varint(at, end)
                stop = at + length
            elif wire == _VARINT:
                stop = varint(at, end)[1]
            elif wire in (_EIGHT, _FOUR):
                stop = at + (8 if wire == _EIGHT else 4)
            else:
                raise FormatError("no protobuf field begins here", offset=begin, expected="wire type 0, 1, 2 or 5",
                                  found=wire)
            if stop > end or stop < at:
                raise FormatError("a field reaches beyond its message", offset=begin, expected=f"at most {end - at}",
                                  found=stop - at)
            yield number, wire, at, stop
            at = stop

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """An unsigned number of up to 64 bits and the offset behind it."""
        if at < end and (byte := self.view[at]) < 0x80:  # most are small
            return byte, at + 1
        value = shift = 0
        start = at
        while at < end and shift < 70:
            byte = self.view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, at
            shift += 7
        raise FormatError("a number does not end", offset=start, expected="at most 10 bytes", found=at - start)

    def store(self, values: dict[str, Any], field: ProtobufField, wire: int, begin: int, end: int, depth: int) -> None:
        """Adds one occurrence of a field."""
        if field.mapped:
            self._wanted(wire, _LENGTH, field, begin)
            key, value = self._entry(field, begin, end, depth)
            values.setdefault(field.name, {})[key] = value
        elif field.raw:
            self._wanted(wire, _LENGTH if wire == _LENGTH else field.wire, field, begin)
            self._whole(field, begin, end)
            values.setdefault(field.name, []).append(self.view[begin:end])
        elif field.repeated and field.kind in _WIRE and wire == _LENGTH:
            values.setdefault(field.name, []).extend(self._packed(field, begin, end))
        else:
            self._wanted(wire, field.wire, field, begin)
            value = self._single(field, begin, end, depth)
            if field.repeated:
                values.setdefault(field.name, []).append(value)
            else:
                values[field.name] = value

    def _single(self, field: ProtobufField, begin: int, end: int, depth: int) -> Any:
        kind = field.kind
        if kind not in _DEFAULTS:
            return self.message(kind, begin, end, depth + 1)
        if kind == "int":
            number = self.varint(begin, end)[0]
            return number - (number >> 63 << 64)
        if kind == "string":
            return self._text(begin, end)
        if kind == "bytes":
            return self.view[begin:end]
        if kind == "bool":
            return bool(self.varint(begin, end)[0])
        return struct.unpack_from("<f" if kind == "float" else "<d", self.view, begin)[0]

    def _text(self, begin: int, end: int) -> str:
        try:
            return str(self.view[begin:end], "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError("a string is not UTF-8", offset=begin + error.start, expected="UTF-8",
                              found=error.reason) from None

    def _packed(self, field: ProtobufField, at: int, end: int) -> Iterator[Any]:
        while at < end:
            number, at = self.varint(at, end)
            yield bool(number) if field.kind == "bool" else number - (number >> 63 << 64)

    def _entry(self, field: ProtobufField, begin: int, end: int, depth: int) -> tuple[str, Any]:
        key, value = "", Message(self.schema, field.kind) if field.kind not in _DEFAULTS else _DEFAULTS[field.kind]
        for number, wire, first, stop in self.scan(begin, end):
            if number == 1:
                self._wanted(wire, _LENGTH, field, first)
                key = self._text(first, stop)
            elif number == 2:
                self._wanted(wire, field.wire, field, first)
                value = self._single(field, first, stop, depth)
        return key, value

    def _whole(self, field: ProtobufField, begin: int, end: int) -> None:
        size = 4 if field.kind == "float" else 8
        if (end - begin) % size:
            raise FormatError(f"field {field.name} holds no whole number of elements", offset=begin,
                              expected=f"a multiple of {size} bytes", found=end - begin)

    def _wanted(self, wire: int, expected: int, field: ProtobufField, offset: int) -> None:
        if wire != expected:
            raise FormatError(f"field {field.name} ({field.number}) has another wire type", offset=offset,
                              expected=expected, found=wire)


def write_message(message: Message) -> bytes:
    """The bytes of a message, fields in the order of their numbers. KeyError for a field the schema does not have."""
    fields = sorted((message.schema.by_name[message.kind][name] for name in message.fields), key=lambda f: f.number)
    return b"".join(piece for field in fields for piece in _written(field, message.fields[field.name], message.schema))


def _written(field: ProtobufField, value: Any, schema: Schema) -> Iterator[bytes]:
    if field.mapped:
        for key, item in value.items():
            entry = bytes_field(1, key.encode()) + _one(field._replace(number=2), item)
            yield bytes_field(field.number, entry)
    elif field.raw:
        yield bytes_field(field.number, value)
    elif field.repeated and field.kind in _WIRE:
        yield bytes_field(field.number, b"".join(_varint(int(item)) for item in value))
    elif field.repeated:
        yield from (_one(field, item) for item in value)
    else:
        yield _one(field, value)


def _one(field: ProtobufField, value: Any) -> bytes:
    if field.kind in ("int", "bool"):
        return _varint(field.number << 3) + _varint(int(value))
    if field.kind in ("float", "double"):
        form = "<f" if field.kind == "float" else "<d"
        return _varint(field.number << 3 | _WIRE[field.kind]) + struct.pack(form, value)
    if field.kind == "string":
        return bytes_field(field.number, value.encode())
    return bytes_field(field.number, value if field.kind == "bytes" else write_message(value))


def bytes_field(number: int, data: bytes | memoryview) -> bytes:
    """A field of that number that holds bytes, or a message in its bytes."""
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + bytes(data)


def _varint(number: int) -> bytes:
    if 0 <= number < 0x80:
        return bytes((number,))
    number &= 0xFFFFFFFFFFFFFFFF
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
