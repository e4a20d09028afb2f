"""Changed inputs: of bytes, and of what bytes stand for, so that lengths, checksums and brackets still fit and readers
come to what lies behind them."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

Mutant = Callable[[bytes, random.Random], bytes]
EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x200, 0x4000, 0x7FFF, 0xFFFF, 0x30000000, 0x7FFFFFFF, 0x80000000,
            0xFFFFFFF0, 0xFFFFFFFF, 1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TOKENS = (*b"0 1 2 -1 -0.0 4294967296 99999999999999999999 1e999 nan inf { } [ ] ( ) < > \" ' , : = ? .. /".split(),
          b"true", b"null", b"\x00", b"\xff", b"\xed\xa0\x80", b"\x1b[2J", b"\n", b"tensor<fp16, [4294967296]>",
          b"tensor<4294967296x1xf32>", b"x" * 300)
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 255, 4096, 1 << 31, 1 << 40, 1 << 63, 10 ** 40, 0.5, -0.0, 1e308, float("inf"),
    float("nan"), "", "x", "0", "-1", "../..", "/", "\x00", "\ud800", "main", "h13", "x" * 300, [], {}, [[]], [0],
    [1, 2, 3], [None], {"a": {}}, {"": []})
WORD = re.compile(rb"\d+\.?\d*(?:[eE][-+]?\d+)?|[A-Za-z_][\w.]*|\s+|.", re.DOTALL)
CHANGES = (1, 1, 1, 1, 2, 2, 4, 8)
"""How many changes a mutant has, by how often."""


def of_bytes(data: bytes, draw: random.Random) -> bytes:
    """Bits, words and pieces changed, cut, doubled; mostly where there is something."""
    made = bytearray(data)
    for _ in range(draw.choice(CHANGES)):
        place = draw.randrange(len(made) + 1)
        for _ in range(3):
            if any(made[place:place + 8]):
                break
            place = draw.randrange(min(len(made), 0x8000) + 1)
        kind = draw.randrange(16)
        if kind < 5 and place < len(made):
            made[place] ^= 1 << draw.randrange(8)
        elif kind < 10:
            size = draw.choice((1, 2, 4, 4, 4, 8))
            place -= place % size
            number = draw.choice((*EXTREMES, len(made), draw.getrandbits(32)))
            if draw.random() < 0.3:
                number = int.from_bytes(made[place:place + size], "little") + draw.choice((-64, -1, 1, 2, 64))
            made[place:place + size] = (number % 256 ** size).to_bytes(size, "little")
        elif kind < 13:
            length, source = draw.choice((1, 4, 16, 64, 512)), draw.randrange(len(made) + 1)
            made[place:place + length * draw.randrange(2)] = made[source:source + length]
        elif kind < 15:
            del made[place:place + draw.choice((1, 2, 4, 8, 64))]
        elif draw.random() < 0.3:
            del made[place:]
    return bytes(made) or b"\x00"


def of_text(data: bytes, draw: random.Random) -> bytes:
    """Words, numbers and lines changed, cut, doubled and exchanged."""
    words = WORD.findall(data)
    for _ in range(draw.choice(CHANGES)):
        if not words:
            return draw.choice(TOKENS)
        place, other, kind = draw.randrange(len(words)), draw.randrange(len(words)), draw.randrange(9)
        if kind == 0:
            words[place] = draw.choice(TOKENS)
        elif kind == 1:
            words.insert(place, draw.choice(TOKENS))
        elif kind == 2:
            words[place] = words[other]
        elif kind == 3:
            words[place], words[other] = words[other], words[place]
        elif kind == 4:
            del words[place:place + draw.choice((1, 1, 2, 8))]
        elif kind == 5:
            length = draw.choice((1, 3, 10, 40))
            words[place:place] = words[other:other + length]
        elif kind == 6:
            numbers = [number for number, word in enumerate(words) if word[:1].isdigit()]
            if numbers:
                words[draw.choice(numbers)] = str(draw.choice((*EXTREMES, -1, 3, 7, draw.randrange(100)))).encode()
        elif kind == 7 and draw.random() < 0.2:
            del words[place:]
        else:
            made = bytearray(words[place])
            made[draw.randrange(len(made))] ^= 1 << draw.randrange(8)
            words[place] = bytes(made)
    return b"".join(words)


def changed_value(document: Any, draw: random.Random) -> Any:
    """A document of JSON, in place, with one value changed, removed, doubled or put elsewhere."""
    places: list[tuple[Any, Any]] = []

    def visit(inner: Any) -> None:
        for key in inner if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ():
            places.append((inner, key))
            visit(inner[key])

    visit(document)
    if not places:
        return deepcopy(draw.choice(VALUES))
    (inner, key), (elsewhere, other) = draw.choice(places), draw.choice(places)
    value, kind = inner[key], draw.randrange(8)
    if kind == 0:
        del inner[key]
    elif kind == 1:
        inner[key] = deepcopy(elsewhere[other])
    elif kind == 2 and isinstance(inner, list):
        inner.insert(key, deepcopy(value))
    elif kind == 3 and isinstance(inner, dict):
        inner[draw.choice(("", "x", f"{key}x", "files", "name"))] = inner.pop(key)
    elif isinstance(value, int) and not isinstance(value, bool) and kind < 7:
        inner[key] = draw.choice((value + 1, value - 1, -value, value * 2, value << 32, float(value), str(value)))
    elif isinstance(value, str) and kind < 7 and value:
        inner[key] = of_text(value.encode("utf-8", "surrogatepass"), draw).decode("utf-8", "replace")
    else:
        inner[key] = deepcopy(draw.choice(VALUES))
    return document


def of_json(data: bytes, draw: random.Random) -> bytes:
    """A document of JSON with values changed."""
    document = json.loads(data)
    for _ in range(draw.choice(CHANGES)):
        document = changed_value(document, draw)
    return json.dumps(document).encode("utf-8", "replace")


Field = tuple[int, int, Any]
"""Number, wire type, and value: a number, or bytes."""


def _fields(data: bytes) -> list[Field] | None:
    """The fields of a message of protobuf; None where these bytes are none."""
    found: list[Field] = []
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        number, wire = tag >> 3, tag & 7
        if place < 0 or not number:
            return None
        if wire == 0:
            value, place = _varint(data, place)
        elif wire in (1, 5):
            value, place = data[place:place + (8 if wire == 1 else 4)], place + (8 if wire == 1 else 4)
        elif wire == 2:
            size, place = _varint(data, place)
            value, place = data[place:place + size], place + size if place >= 0 else -1
        else:
            return None
        if not 0 <= place <= len(data):
            return None
        found.append((number, wire, value))
    return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while 0 <= place < len(data) and shift < 70:
        value |= (data[place] & 127) << shift
        place, shift = place + 1, shift + 7
        if not data[place - 1] & 128:
            return value, place
    return 0, -1


def _encoded(number: int) -> bytes:
    made = bytearray()
    number %= 1 << 64
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def _joined(fields: Sequence[Field]) -> bytes:
    return b"".join(_encoded(number << 3 | wire) + (
        _encoded(value) if wire == 0 else value if wire != 2 else _encoded(len(value)) + value)
        for number, wire, value in fields)


def of_protobuf(data: bytes, draw: random.Random) -> bytes:
    """A message with fields changed, removed, doubled, exchanged and renumbered, with lengths that fit."""
    for _ in range(draw.choice(CHANGES)):
        data = _message(data, draw)
    return data


def _message(data: bytes, draw: random.Random) -> bytes:
    fields = _fields(data)
    if not fields:
        return _leaf(data, draw)
    place = draw.randrange(len(fields))
    number, wire, value = fields[place]
    kind = draw.randrange(20)
    if kind == 0:
        del fields[place]
    elif kind == 1:
        fields.insert(draw.randrange(len(fields) + 1), fields[place])
    elif kind == 2:
        other = draw.randrange(len(fields))
        fields[place], fields[other] = fields[other], fields[place]
    elif kind == 3:
        fields[place] = (draw.choice((number + 1, max(1, number - 1), draw.randrange(1, 40))), wire, value)
    elif wire == 0:
        fields[place] = (number, wire, draw.choice((value + 1, value - 1, value * 2, draw.randrange(20),
                                                    draw.choice(EXTREMES))))
    elif wire == 2:
        fields[place] = (number, wire, _message(value, draw))
    else:
        fields[place] = (number, wire, of_bytes(value, draw)[:len(value)].ljust(len(value), b"\0"))
    return _joined(fields)


def _leaf(data: bytes, draw: random.Random) -> bytes:
    """Text, or numbers in a row."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice(TOKENS)
    if kind == 1:
        return b""
    if kind == 2:
        return data * 2
    if kind == 3:
        return data[:len(data) // 2]
    return of_text(data, draw) if data.isascii() and kind == 4 else of_bytes(data, draw) if data else b"\x01"


def of_archive(inner: Mutant) -> Mutant:
    """A zip archive one of whose members is changed, with a checksum that fits."""
    def mutant(data: bytes, draw: random.Random) -> bytes:
        if draw.random() < 0.1:
            return of_bytes(data, draw)
        members = dict(read_archive(data))
        name = draw.choice(list(members))
        members[name] = inner(members[name], draw)
        if draw.random() < 0.05:
            members[draw.choice(("../x", "x", "trace.jsonl"))] = members.pop(name)
        return archive(members)
    return mutant


@lru_cache(maxsize=8)
def read_archive(data: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def archive(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for name, data in members.items():
            file.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def behind(size: int, inner: Mutant, start: int = 0) -> Mutant:
    """A text whose length is stated before it, in `size` bytes at `start`, changed, with a length that fits."""
    def mutant(data: bytes, draw: random.Random) -> bytes:
        begin = start + size
        length = int.from_bytes(data[start:begin], "little")
        text, rest = data[begin:begin + length], data[begin + length:]
        if draw.random() < 0.2:
            rest = of_bytes(rest, draw)
        else:
            text = inner(text, draw)
        return data[:start] + len(text).to_bytes(size, "little") + text + rest
    return mutant


def one_of(*mutants: Mutant) -> Mutant:
    """Each of these in turn, by chance."""
    return lambda data, draw: draw.choice(mutants)(data, draw)
