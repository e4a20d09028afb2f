"""Headers of GGUF files, made here byte by byte: every type of field, and what states more than the file has."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from openane.errors import FormatError, UnsupportedError
from openane.formats.gguf import MOST, GgufTensor, read_header

NUMBERS = {0: ("B", 200), 1: ("b", -3), 2: ("H", 40000), 3: ("h", -5), 4: ("I", 1 << 31), 5: ("i", -7), 6: ("f", 0.5),
           7: ("?", True), 10: ("Q", 1 << 63), 11: ("q", -9), 12: ("d", 0.1)}
def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data
def field(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value
def array(kind: int, count: int, values: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + values
def tensor(name: str, *dimensions: int, kind: int = 0, offset: int = 0) -> bytes:
    sizes = b"".join(struct.pack("<Q", each) for each in dimensions)
    return text(name) + struct.pack("<I", len(dimensions)) + sizes + struct.pack("<IQ", kind, offset)
def header(fields: Sequence[bytes] = (), tensors: Sequence[bytes] = (), version: int = 3) -> memoryview:
    return memoryview(b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(fields)) + b"".join([*fields, *tensors]))


WHOLE = header([*(field(f"n{kind}", kind, struct.pack("<" + code, value)) for kind, (code, value) in NUMBERS.items()),
                *(field(f"a{kind}", 9, array(kind, 2, struct.pack("<2" + code, value, value)))
                  for kind, (code, value) in NUMBERS.items()),
                field("text", 8, text("aé\0b")), field("texts", 9, array(8, 3, text("") + text("ab") + text("▁c"))),
                field("none", 9, array(5, 0)), field("general.alignment", 4, struct.pack("<I", 128))],
               [tensor("w", 4, 3, 2, kind=1, offset=256), tensor("b", 5)])


def test_every_type_is_read() -> None:
    found = read_header(WHOLE)
    for kind, (_, value) in NUMBERS.items():
        assert found.fields[f"n{kind}"] == value
        assert found.fields[f"a{kind}"] == [value, value]
        assert type(found.fields[f"a{kind}"][0]) is type(value)
    assert found.fields["text"] == "aé\0b"
    assert found.fields["texts"] == ["", "ab", "▁c"]
    assert found.fields["none"] == []
    assert found.tensors == (GgufTensor("w", (2, 3, 4), 1, 256), GgufTensor("b", (5,), 0, 0))
    assert found.start % 128 == 0
    assert 0 <= found.start - len(WHOLE) < 128


def test_a_header_that_is_cut_is_refused_wherever_it_is_cut() -> None:
    for size in range(len(WHOLE)):
        with pytest.raises(FormatError, match="at offset 0x"):
            read_header(WHOLE[:size])


@pytest.mark.parametrize("data", [
    header([field("a", 9, array(4, MOST))]),
    header([field("a", 9, array(8, MOST))]),
    header([field("a", 9, array(4, 1 << 62))]),
    header([field("a", 9, array(8, (1 << 64) - 1))]),
    header([field("a", 8, struct.pack("<Q", (1 << 64) - 1))]),
    memoryview(b"GGUF" + struct.pack("<IQQ", 3, 1 << 62, 0)),
    memoryview(b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 62)),
    header(tensors=[tensor("w", *[1] * 5)]),
    header(tensors=[tensor("w")])], ids=range(9))
def test_counts_beyond_the_file_are_refused_at_once(data: memoryview) -> None:
    """Small files whose counts had a reader go on for as long as they say."""
    with pytest.raises(FormatError, match=r"beyond the end of the file|at most|number of dimensions"):
        read_header(data)


def test_arrays_share_one_limit() -> None:
    with pytest.raises(FormatError, match="arrays have too many values"):
        read_header(header([field(f"a{number}", 9, array(0, MOST // 2, bytes(MOST // 2))) for number in range(3)]))


@pytest.mark.parametrize(("data", "error", "said"), [
    (header([field("a", 0, b"\0")] * 2), FormatError, "'a' is stated twice"),
    (header(tensors=[tensor("w", 1)] * 2), FormatError, "'w' is stated twice"),
    (header([field("a", 13, b"")]), FormatError, "unknown type"),
    (header([field("a", 9, array(13, 1))]), FormatError, "unknown type"),
    (header([field("a", 8, text(b"\xff"))]), FormatError, "not UTF-8"),
    (header([field("general.alignment", 4, struct.pack("<I", 24))]), FormatError, "power of two"),
    (header([field("general.alignment", 8, text("32"))]), FormatError, "power of two"),
    (header([field("a", 9, array(9, 1))]), UnsupportedError, "arrays of arrays"),
    (header(version=1), FormatError, "version is another"),
    (memoryview(b"GGUF" + struct.pack(">IQQ", 3, 0, 0)), UnsupportedError, "big-endian")])
def test_what_is_wrong_is_said(data: memoryview, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        read_header(data)
