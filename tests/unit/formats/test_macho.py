"""Structures and load commands: what is written reads back, what is broken is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.errors import FormatError, ProgramError
from openane.formats.hwx import MAGIC
from openane.formats.macho import (
    PAGE,
    Ident,
    Library,
    MachO,
    MachOHeader,
    Note,
    Section,
    Segment,
    Symbol,
    SymbolTable,
    Thread,
    Unknown,
    read_macho,
    section_data,
    write_macho,
)
from openane.formats.reader import ByteReader, Record, text, u8, u16, u32, u32s, u64


@dataclass(frozen=True)
class _Everything(Record):
    a: int = u8()
    b: int = u16()
    c: int = u32()
    d: int = u64()
    e: tuple[int, ...] = u32s(3)
    f: str = text(5)


@given(st.integers(0, 255), st.integers(0, 2**64 - 1), st.tuples(*[st.integers(0, 2**32 - 1)] * 3),
       st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=5))
def test_a_record_reads_back(a: int, d: int, e: tuple[int, ...], f: str) -> None:
    record = _Everything(a, 7, 9, d, e, f)
    assert _Everything.byte_size() == 1 + 2 + 4 + 8 + 12 + 5
    assert ByteReader(b"xx" + record.pack()).record(_Everything, 2, "it") == record


@pytest.mark.parametrize("broken", [{"a": 256}, {"b": -1}, {"e": (0, 1, 2**32)}, {"f": "sixsix"}])
def test_a_value_that_does_not_fit_is_named(broken: dict[str, object]) -> None:
    with pytest.raises(ProgramError, match=f"_Everything.{next(iter(broken))} "):
        replace(_Everything(), **broken).pack()  # type: ignore[arg-type]


def test_offsets_in_errors_are_offsets_in_the_file() -> None:
    window = ByteReader(bytes(100), base=1000).window(10, 20, "a window").window(5, 10, "a smaller one")
    with pytest.raises(FormatError) as caught:
        window.record(_Everything, 3, "a record")
    assert caught.value.offset == 1018
    with pytest.raises(FormatError):
        window.take(-1, 1, "what lies before")
    with pytest.raises(FormatError, match="UTF-8"):
        ByteReader(b"ab\xff\0").string(0, "a name")
    with pytest.raises(FormatError, match="does not end"):
        ByteReader(b"abcd").string(0, "a name")


def _file() -> MachO:
    sections = (Section("__text", "__TEXT", 0x30000000, 5, align=14, flags=0x28),
                Section("__const", "__TEXT", 0x30000040, 3, align=6, flags=0x26))
    segments = (Segment("__PAGEZERO", 0, PAGE, 0, 4),
                Segment("__TEXT", 0x30000000, PAGE, 5, 4, sections, b"hello".ljust(0x40, b"\0") + b"abc"),
                Segment("__FVMLIB", 0x30004000, PAGE, 1, 6, (Section("__const", "__FVMLIB", 0x30004000, 64),)))
    symbols = SymbolTable((Symbol("image", 0x0F, 3, 2, 0x30004000), Symbol("", 0x0E, 1), Symbol("void:t1=1", 0x80)))
    return MachO(MachOHeader(MAGIC, 0x80, 4, 2, flags=0x200000), (
        *segments, Library("image", 0x30004000), Library("bild", 0x30004000, wide=True),
        Thread(3, bytes(range(12)), b"net\0image\0"), Ident("ANEC v1\nme\n"), Note("src model info", bytes(8)),
        Unknown(0x77, b"12345678"), symbols))


def test_every_command_reads_back() -> None:
    written = write_macho(_file())
    file = read_macho(written, MAGIC)
    assert write_macho(file) == written
    originals = _file().commands
    assert [type(c) for c in file.commands] == [type(c) for c in originals]
    for read, original in zip(file.commands, originals, strict=True):
        if isinstance(read, Segment) and isinstance(original, Segment):
            assert (read.name, read.vmaddr, read.protection, read.flags) == (
                original.name, original.vmaddr, original.protection, original.flags)
        elif isinstance(read, Thread) and isinstance(original, Thread):
            assert (read.state, read.strings.rstrip(b"\0")) == (original.state, original.strings.rstrip(b"\0"))
        else:
            assert read == original
    text_segment = list(file.segments)[1]
    assert section_data(text_segment, text_segment.sections[1]).take(0, 3, "it") == b"abc"
    assert written.index(b"hello") == PAGE


def test_apples_files_read_back_command_by_command(corpus: Path) -> None:
    for path in sorted((corpus / "apple/hwx").glob("*.hwx")):
        file = read_macho(path.read_bytes(), MAGIC)
        again = read_macho(write_macho(file), MAGIC)
        for one, other in zip(file.commands, again.commands, strict=True):
            if not isinstance(one, (Segment, Thread)):
                assert one == other
            elif isinstance(one, Segment) and isinstance(other, Segment):
                assert one.data == other.data
        assert not any(isinstance(c, Unknown) for c in file.commands)


@pytest.mark.parametrize(("offset", "value", "message"), [
    (0x00, 0xFEEDFACF, "magic"), (0x10, 0xFFFFFFFF, "more load commands"), (0x14, 0xFFFFFFF0, "outside its container"),
    (0x24, 4, "impossible size"), (0x24, 0x49, "impossible size"), (0x24, 0x7FFFFFF8, "outside its container")])
def test_broken_headers_are_refused(offset: int, value: int, message: str) -> None:
    data = bytearray(write_macho(_file()))
    data[offset:offset + 4] = value.to_bytes(4, "little")
    with pytest.raises(FormatError, match=message):
        read_macho(bytes(data), MAGIC)
