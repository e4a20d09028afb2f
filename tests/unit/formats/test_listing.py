"""Files as text: every byte comes back, every field of a container changes its own bytes, errors are typed."""

from __future__ import annotations

import random
import re
import struct
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.chips import TaskFields, get_chip
from openane.errors import FormatError
from openane.formats import write_anec, write_hwx
from openane.formats.listing import assemble, assemble_file, disassemble_bytes, save_listing
from openane.formats.listing.items import RECORDS
from openane.formats.reader import Record
from openane.program import Program, Role, Task
from openane.program.listing import TextError

RECORD = re.compile(rf"({'|'.join(RECORDS)}) (0x[0-9a-f]+)")


def again(data: bytes) -> bytes:
    listing = disassemble_bytes(data, "file.hwx")
    return assemble(listing.text, lambda name: listing.sidecar)


def written(program: Program) -> list[bytes]:
    return [write_hwx(program), write_hwx(program, "compat"), write_anec(program), write_anec(program, 0x800)]


def test_apple_files_come_back(corpus: Path) -> None:
    files = [*sorted(corpus.glob("apple/hwx/*")), *sorted(corpus.glob("apple/anec/*"))]
    assert len(files) > 20
    for file in files:
        data = file.read_bytes()
        listing = disassemble_bytes(data, file.name)
        assert assemble(listing.text, lambda name, held=listing.sidecar: held) == data, file.name  # type: ignore[misc]
        assert listing.undescribed == 0, f"{file.name} has bytes without a description"


def test_own_files_come_back(small: Program) -> None:
    for data in written(small):
        assert again(data) == data


def test_any_program_comes_back(programs: st.SearchStrategy[Program]) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(programs)
    def check(program: Program) -> None:
        data = write_hwx(program)
        assert again(data) == data

    check()


def test_broken_files_come_back_too(small: Program) -> None:
    """What does not load can still be looked at, and edited."""
    draw = random.Random(4)
    seeds = written(small)
    kinds: Counter[str] = Counter()
    for _ in range(150):
        data = bytearray(draw.choice(seeds))
        for _ in range(draw.choice((1, 2, 8))):
            place = draw.randrange(len(data) if draw.random() < 0.3 else min(len(data), 0x1800))
            data[place] = draw.choice((0, 1, 0xFF, draw.randrange(256)))
        try:
            assert again(bytes(data)) == data
            kinds["same"] += 1
        except FormatError:
            kinds["refused"] += 1
    assert kinds["same"] > 100


def field_places(kind: type[Record]) -> dict[str, tuple[int, int, str]]:
    """Name to offset, size and code; of an array its first and its last element."""
    places, position = {}, 0
    for f in fields(kind):
        code = f.metadata["code"]
        size = struct.calcsize("<" + code)
        if isinstance(f.default, tuple):
            each = size // len(f.default)
            for index in (0, len(f.default) - 1):
                places[f"{f.name}[{index}]"] = position + index * each, each, code[-1]
        else:
            places[f.name] = position, size, code
        position += size
    return places


def later(small: Program) -> Program:
    """A program of H16 with the same buffers: one task that writes one register."""
    words = get_chip("h16").encode(TaskFields({"Header.Task.TaskSize": 11}, {}, ((0x4, 1),)))
    slots = get_chip("h16").limits.slots
    ports = enumerate((b for b in small.buffers if b.role is not Role.SCRATCH), slots.first_port)
    buffers = (*(replace(b, slot=slot) for slot, b in ports),
               *(replace(b, slot=slots.scratch) for b in small.with_role(Role.SCRATCH)))
    return replace(small, chip="h16", tasks=(Task(words, 16),), buffers=buffers)


@pytest.mark.parametrize("container", ["hwx", "anec", "h16"])
def test_every_container_field_changes_its_bytes_and_no_others(small: Program, container: str) -> None:
    data = write_anec(small) if container == "anec" else write_hwx(small if container == "hwx" else later(small))
    lines = disassemble_bytes(data, "x").text.split("\n")
    seen = set()
    for number, line in enumerate(lines):
        match = RECORD.match(line)
        if match is None or (match[1] in seen and match[1] != "tensor"):
            continue
        seen.add(match[1])
        for name, (offset, size, code) in field_places(RECORDS[match[1]]).items():
            value: Any = "Zq" if code.endswith("s") else 0x5A
            text = with_field(lines, number, name, f'"{value}"' if code.endswith("s") else hex(value))
            found = assemble(text, None)
            start = int(match[2], 16) + offset
            wanted = value.encode().ljust(size, b"\0") if code.endswith("s") else value.to_bytes(size, "little")
            assert found == data[:start] + wanted + data[start + size:], f"{line}: {name}"
    early, late = {"program", "tag"}, {"program4", "tag4", "texthead"}
    common = set(RECORDS) - {"anec", "buffer", "note", "relocation"} - early - late
    assert seen == {"anec": {"anec"}, "hwx": common | early, "h16": common | late}[container]


def with_field(lines: list[str], number: int, name: str, value: str) -> str:
    """The text with one field of the record on line `number` set."""
    end = number + 1
    while lines[end].startswith("  "):
        end += 1
    head = lines[number].partition("  ;")[0]
    inline = re.sub(rf"  {re.escape(name)} \S+", "", head) + f"  {name} {value}"
    array = name.partition("[")[0]
    members = [line for line in lines[number + 1:end] if line.split()[0] != name or array == "nchw"]
    return "\n".join([*lines[:number], inline, *members, *lines[end:]])


def test_grouped_numbers_follow_one_another(small: Program) -> None:
    data = write_anec(small)
    text = disassemble_bytes(data, "x.anec").text
    row = next(line for line in text.split("\n") if line.strip().startswith("nchw["))
    name, *numbers = row.split()
    assert len(numbers) == 6
    split = "\n".join(f"  nchw[{int(name[5:-1]) + i}] {value}" for i, value in enumerate(numbers))
    assert assemble(text.replace(row, split)) == data


def test_long_pieces_go_to_the_sidecar(tmp_path: Path, small: Program) -> None:
    program = Program(small.chip, small.tasks, bytes(range(256)) * 4, small.buffers, small.name)
    data = write_hwx(program)
    listing = disassemble_bytes(data, "prog.hwx")
    paths = save_listing(listing, tmp_path / "prog.ane.s")
    assert [p.name for p in paths] == ["prog.ane.s", "prog.bin"]
    assert assemble_file(paths[0]) == data
    paths[1].write_bytes(b"\1" + listing.sidecar[1:])
    with pytest.raises(TextError, match="remove 'sha256'"):
        assemble_file(paths[0])
    paths[0].write_text(re.sub(r" sha256 \w+", "", listing.text))
    assert assemble_file(paths[0]).count(b"\1\1\2\3") == 1
    paths[1].unlink()
    with pytest.raises(TextError, match="ane dis FILE -o OUT"):
        assemble_file(paths[0])


MISTAKES = [
    ("", 1, 1, "empty"),
    ("hello", 1, 1, "first line"),
    ("openane 2 hwx h13", 1, 9, "version"),
    ("openane 1 elf h13", 1, 11, "one of hwx, anec"),
    ("openane 1 hwx h13\nfiel 3", 2, 1, "did you mean 'file'"),
    ("openane 1 hwx h13\ntext 0x0", 2, 9, "size of the file is not stated"),
    ("openane 1 hwx h13\nfile 999999999999", 2, 6, "out of range"),
    ("openane 1 hwx h13\nfile 0x7fffffff", 2, 1, "nothing states bytes"),
    ("openane 1 hwx h13\nfile 8\nbytes 0x4\n  00 01 02 03 04", 3, 1, "outside"),
    ("openane 1 hwx h13\nfile 8\nbytes 0x0\n  00 01\nbytes 0x1\n  02", 5, 1, "overlap what line 3 states"),
    ("openane 1 hwx h13\nfile 8\nbytes 0x0\n  0", 4, 3, "two hexadecimal digits"),
    ("openane 1 hwx h13\nfile 8\nstring 0x0 \"abc", 3, 12, "does not end"),
    ("openane 1 hwx h13\nfile 8\nstring 0x0 \"\\q\"", 3, 12, "unknown escape"),
    ("openane 1 hwx h13\nfile 99\nmacho 0x0\n  cputyp 3", 4, 3, "did you mean 'cputype'"),
    ("openane 1 hwx h13\nfile 99\nmacho 0x0\n  cputype 0x100000000", 4, 11, "out of range"),
    ("openane 1 hwx h13\nfile 99\nmacho 0x0\n  cputype 1\n  cputype 1", 5, 3, "stated twice"),
    ("openane 1 hwx h13\nfile 99\nprogram 0x0\n  slots[256] 1", 4, 3, "256 elements"),
    ("openane 1 hwx h13\nfile 99\nsegment 0x0\n  name \"12345678901234567\"", 4, 8, "at most 16"),
    ("openane 1 hwx h13\nsidecar \"../x\" 3 bytes", 2, 9, "without folders"),
    ("openane 1 hwx h13\nfile 9\ndata 0x0 size 9 from 0", 3, 1, "none is named above"),
    ("openane 1 hwx h13\ntask 0 at 0x0, 9 words", 2, 1, "where the text begins"),
    ("openane 1 hwx h13\ntext 0x0\ntask 0 at 0x0, 99999999999 words", 3, 16, "1 to 4096 words"),
    ("openane 1 hwx h99\ntext 0x0\ntask 0 at 0x0, 3 words\n  Common", 3, 16, "raw `words`"),
    ("openane 1 hwx h15\ntext 0x0\ntask 0 at 0x0, 9 words\n  records 0x4800 x0", 4, 18, "from 1 on"),
    ("openane 1 hwx h13\n  file 3", 2, 3, "belongs to nothing"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), MISTAKES)
def test_mistakes_are_named_where_they_are(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(TextError, match=re.escape(message)) as caught:
        assemble(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_hostile_names_do_not_escape_their_comment(small: Program) -> None:
    buffers = tuple(b if b.name != "a" else type(b)("a\n  words 00000000\ntask 9", b.slot, b.role, b.size, b.layout)
                    for b in small.buffers)
    data = write_hwx(Program(small.chip, small.tasks, b"", buffers, "net\nfile 3"))
    assert again(data) == data
