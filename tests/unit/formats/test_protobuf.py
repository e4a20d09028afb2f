"""Protocol Buffers: what is written reads back, unknown fields are skipped, nothing but FormatError escapes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.errors import FormatError
from openane.formats.protobuf import (
    MAXIMUM_DEPTH,
    Message,
    Schema,
    long_fields,
    read_message,
    scan_fields,
    write_message,
)

SCHEMA = Schema("""
Inner: text 1 string; number 2 int
Outer: flag 1 bool; number 2 int; real 3 float; wide 4 double; text 5 string; data 6 bytes; inner 7 Inner;
    numbers 8 int*; flags 9 bool*; reals 10 float*; wides 11 double*; texts 12 string*; inners 13 Inner*;
    table 14 Inner%; words 1000 string%; outer 15 Outer
""")
NUMBERS = st.integers(-2**63, 2**63 - 1)
INNER = st.builds(lambda text, number: Message(SCHEMA, "Inner", text=text, number=number), st.text(max_size=5), NUMBERS)
VALUES = {
    "flag": st.booleans(), "number": NUMBERS, "real": st.floats(width=32, allow_nan=False), "inner": INNER,
    "wide": st.floats(allow_nan=False), "text": st.text(max_size=9), "data": st.binary(max_size=200),
    "numbers": st.lists(NUMBERS, min_size=1, max_size=4), "flags": st.lists(st.booleans(), min_size=1, max_size=4),
    "reals": st.integers(1, 9).map(lambda count: bytes(range(4 * count))),
    "wides": st.integers(1, 9).map(lambda count: bytes(range(8 * count))),
    "texts": st.lists(st.text(max_size=4), min_size=1, max_size=3), "inners": st.lists(INNER, min_size=1, max_size=3),
    "table": st.dictionaries(st.text(max_size=4), INNER, min_size=1, max_size=3),
    "words": st.dictionaries(st.text(max_size=4), st.text(max_size=4), min_size=1, max_size=3),
}


def plain(value):
    """Messages as dictionaries, views as bytes."""
    if isinstance(value, Message):
        return {name: plain(each) for name, each in value.fields.items()}
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(plain, value))
    return bytes(value) if isinstance(value, memoryview) else value


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_written_messages_read_back(values):
    message = Message(SCHEMA, "Outer", **values)
    assert plain(read_message(SCHEMA, "Outer", write_message(message))) == plain(message)


def test_defaults_and_unknown_fields():
    message = read_message(SCHEMA, "Outer", b"\xf8\x3e\x05" b"\x10\x07")  # field 1007, then number
    assert (message.number, message.text, message.real, list(message.numbers), message.table) == (7, "", 0.0, [], {})
    assert message.inner.text == ""
    assert "number" in message
    assert "inner" not in message
    assert message.which("text", "number") == "number"


def test_both_forms_of_repeated_numbers():
    unpacked = b"\x40\x01\x40\x7f" + b"".join(b"\x55" + struct.pack("<f", each) for each in (1, 2))
    message = read_message(SCHEMA, "Outer", unpacked)
    assert (message.numbers, bytes(message.reals)) == ([1, 127], struct.pack("<ff", 1, 2))


@pytest.mark.parametrize(("data", "words"), [
    (b"\x10", "does not end"), (b"\x10" + b"\xff" * 11, "does not end"), (b"\x2a\x05ab", "beyond its message"),
    (b"\x13", "wire type"), (b"\x2a\x01\xff", "UTF-8"), (b"\x12\x00", "another wire type"),
    (b"\x52\x03abc", "whole number of elements"), (b"\x3a\x03\x0a\x05a", "beyond its message"),
    (b"\x2a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "beyond its message"),
])
def test_malformed_bytes_are_named(data, words):
    with pytest.raises(FormatError, match=words) as error:
        read_message(SCHEMA, "Outer", data)
    assert error.value.offset is not None


def test_depth_is_limited():
    data = b""
    for _ in range(2 * MAXIMUM_DEPTH):
        data = write_message(Message(SCHEMA, "Outer", data=data)).replace(b"\x32", b"\x7a", 1)
    with pytest.raises(FormatError, match="nest too deeply"):
        read_message(SCHEMA, "Outer", data)


@given(st.binary(max_size=300))
def test_random_bytes_raise_nothing_else(data):
    try:
        read_message(SCHEMA, "Outer", data)
    except FormatError:
        return


def _found(scanned):
    """What a scan finds before it ends, and how it ends."""
    fields = []
    try:
        fields += scanned
    except FormatError as error:
        return fields, str(error)
    return fields, ""


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 5]), st.integers(0, 3000), st.integers(0, 20000),
                          st.booleans())), st.integers(1, 9000))
def test_long_fields_are_those_of_a_scan(fields, least) -> None:
    data = bytearray()
    for wire, number, size, cut in fields:
        value = {0: _number(size), 1: bytes(8), 2: _number(size) + bytes(size - cut if size else 0), 5: bytes(4)}
        data += _number(number << 3 | wire) + value.get(wire, b"")
    view = memoryview(bytes(data))
    every, wrong = _found((number, begin, stop) for number, wire, begin, stop in scan_fields(view, 0, len(view))
                          if wire == 2 and stop - begin >= least)
    found, also = _found((number, begin, stop) for _, number, begin, stop in long_fields(view, 0, len(view), least))
    assert (found, also) == (every, wrong)


def _number(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
