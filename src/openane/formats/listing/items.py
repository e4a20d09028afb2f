"""What a listing is made of: items, each some bytes of the file at an offset, as lines of text.

A record is written as its kind, its offset and the fields that are not at their default:

    segment 0x20
      cmdsize   0xe8
      name      "__DATA"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, fields, replace
from enum import IntEnum
from typing import Any

from openane.errors import ProgramError
from openane.formats.anec import AnecHeader as AnecHeader
from openane.formats.hwx.descriptors import ProgramDescriptor, Tag, TensorDescriptor
from openane.formats.hwx.wide import TextHead, WideDescriptor, WideTag
from openane.formats.macho.commands import (
    CommandHeader,
    LibraryRecord,
    LibraryRecord64,
    MachOHeader,
    NoteRecord,
    RelocationRecord,
    Section,
    SegmentRecord,
    SymbolRecord,
    SymbolsRecord,
    ThreadRecord,
)
from openane.formats.reader import Record
from openane.program.listing import Line, ListingToken, integer, quoted, unquoted
from openane.record_classes import dataclass

RECORDS: dict[str, type[Record]] = {
    "macho": MachOHeader, "command": CommandHeader, "segment": SegmentRecord, "section": Section,
    "buffer": LibraryRecord, "buffer64": LibraryRecord64, "thread": ThreadRecord, "program": ProgramDescriptor,
    "tag": Tag, "tensor": TensorDescriptor, "note": NoteRecord, "symbols": SymbolsRecord, "symbol": SymbolRecord,
    "relocation": RelocationRecord, "anec": AnecHeader, "program4": WideDescriptor, "tag4": WideTag,
    "texthead": TextHead,
}
"""Kind of a record in the text to its structure."""

DECIMAL = frozenset(("n", "c", "h", "w", "d", "ncmds", "nsects", "nsyms", "count", "tasks", "align", "binding",
                     "inputs", "outputs", "tiles", "interleave", "element_type", "element_size", "first_task_words",
                     "flavor", "section", "description", "cmdsize"))
"""Fields that count things rather than bytes: printed in decimal."""
GROUPED = {"nchw": 6}  # numbers of one slot stand on one line: N, C, H, W, plane stride, row stride
BYTES_PER_LINE = 16
LINE = 120
LONGEST_PIECE = 1024  # bytes of text on one line

_ELEMENT = re.compile(r"(\w+)\[(\d{1,4})\]", re.ASCII)
_BYTE = re.compile(r"[0-9a-fA-F]{2}", re.ASCII)


class ListingPart(IntEnum):
    """Where in a listing an item stands, and what its bytes count as."""

    TASK = 0
    CONTAINER = 1
    CONSTANTS = 2
    PADDING = 3
    UNDESCRIBED = 4


@dataclass(frozen=True, slots=True)
class Item:
    """`size` bytes at `offset`. `lines` are their text; None where they are long and belong in the sidecar."""

    offset: int
    size: int
    part: ListingPart
    lines: tuple[str, ...] | None
    note: str = ""

    @property
    def end(self) -> int:
        """One past the last byte."""
        return self.offset + self.size


def record_item(kind: str, offset: int, data: bytes, record: Record, note: str = "",
                inline: bool = False) -> Item | None:
    """The item for a record read at `offset` of a file; None when the record does not say all of its bytes."""
    size = record.byte_size()
    if record.pack() != data[offset:offset + size]:
        return None
    rows = [row for f in fields(record) for row in _rows(f, getattr(record, f.name))]
    head, comment = f"{kind} {offset:#x}", f"  ; {note}" if note else ""
    if inline:
        return Item(offset, size, ListingPart.CONTAINER, ("  ".join((head, *(f"{k} {v}" for k, v in rows))) + comment,))
    width = max((len(name) for name, _ in rows), default=0)
    lines = (head + comment, *(f"  {name:<{width}}  {value}" for name, value in rows))
    return Item(offset, size, ListingPart.CONTAINER, lines)


def string_item(offset: int, data: bytes, note: str = "") -> Item:
    """Text: one piece per line that ends in a line break or a NUL."""
    pieces = [piece[i:i + LONGEST_PIECE] for piece in re.split(rb"(?<=\n)|(?<=\0)(?=[^\0])", data)
              for i in range(0, len(piece), LONGEST_PIECE)]
    head = f"string {offset:#x}"
    comment = f"  ; {note}" if note else ""
    if len(pieces) == 1 and len(head) + len(quoted(data)) < LINE:
        return Item(offset, len(data), ListingPart.CONTAINER, (f"{head}  {quoted(data)}{comment}",))
    return Item(offset, len(data), ListingPart.CONTAINER, (head + comment, *(f"  {quoted(piece)}" for piece in pieces)))


def bytes_item(offset: int, data: bytes, part: ListingPart, note: str = "") -> Item:
    """Bytes in hexadecimal."""
    rows = (data[i:i + BYTES_PER_LINE].hex(" ") for i in range(0, len(data), BYTES_PER_LINE))
    head = f"bytes {offset:#x}" + (f"  ; {note}" if note else "")
    return Item(offset, len(data), part, (head, *(f"  {row}" for row in rows)))


def _rows(f: Field[Any], value: Any) -> list[tuple[str, str]]:
    """Name and text of a field, none where it is at its default; elements of an array one by one."""
    default = None if f.default is MISSING else f.default
    if not isinstance(value, tuple):
        return [] if value == default else [(f.name, _value(f.name, value))]
    group = GROUPED.get(f.name, 1)
    rows = []
    for start in range(0, len(value), group):
        piece = value[start:start + group]
        if not isinstance(default, tuple) or piece != default[start:start + group]:
            rows.append((f"{f.name}[{start}]", " ".join(_value(f.name, v) for v in piece)))
    return rows


def _value(name: str, value: object) -> str:
    if isinstance(value, str):
        return quoted(value.encode())
    return str(value) if name in DECIMAL or (isinstance(value, int) and value < 10) else f"{value:#x}"


# Back from text


def parse_record(kind: str, pairs: Sequence[tuple[ListingToken, Sequence[ListingToken]]], head: ListingToken) -> bytes:
    """The bytes of a record whose fields are `pairs` of a name and its values."""
    record_type = RECORDS[kind]
    known = {f.name: f for f in fields(record_type)}
    values: dict[str, Any] = {}
    for name, given in pairs:
        match = None if name.quoted else _ELEMENT.fullmatch(name.text)
        base = match[1] if match else name.text
        if base not in known or name.quoted:
            raise name.unknown(f"field of {kind}", known)
        code = known[base].metadata["code"]
        default = known[base].default
        if match or isinstance(default, tuple):
            values[base] = _elements(name, match, values.get(base, default), given, code)
        elif base in values:
            raise name.error(f"{base} is stated twice")
        else:
            values[base] = _single(name, given, code)
    try:
        return replace(record_type(), **values).pack()
    except ProgramError as error:
        raise head.error(str(error)) from None


def _elements(name: ListingToken, match: re.Match[str] | None, before: Any, given: Sequence[ListingToken],
              code: str) -> Any:
    if match is None or not isinstance(before, tuple):
        raise name.error("this field is an array and no other is" if match is None else "this field is no array",
                         "name[index]" if match is None else "a name without index")
    start = int(match[2])
    if not given or start + len(given) > len(before):
        raise name.error(f"{match[1]} has {len(before)} elements", f"at most {len(before) - start} values from here")
    new = tuple(integer(token, match[1], 0, _limit(code)) for token in given)
    return before[:start] + new + before[start + len(new):]


def _single(name: ListingToken, given: Sequence[ListingToken], code: str) -> Any:
    if len(given) != 1:
        raise name.error(f"{name.text} has one value", f"'{name.text} value'")
    if not code.endswith("s"):
        return integer(given[0], name.text, 0, _limit(code))
    data = unquoted(given[0], name.text)
    if len(data) > int(code[:-1]) or not data.isascii():
        raise given[0].error(f"{name.text} is at most {code[:-1]} ASCII characters", "shorter text in quotes")
    return data.decode("ascii")


def _limit(code: str) -> int:
    return {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF, "Q": 0xFFFFFFFFFFFFFFFF}[code[-1]]


def parse_bytes(lines: Sequence[Line]) -> bytes:
    """The bytes of lines of hexadecimal pairs."""
    out = bytearray()
    for line in lines:
        for token in line.tokens:
            if token.quoted or not _BYTE.fullmatch(token.text):
                raise token.error("a byte is two hexadecimal digits", "for example 0f")
            out.append(int(token.text, 16))
    return bytes(out)
