"""dis, asm and diff on the command line: the way out and back, exit statuses, errors with line and column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.h13 import layout_of

from openane.chips import get_chip
from openane.cli import FAILED, USAGE, main
from openane.engine import Access, Elementwise
from openane.formats import save_program
from openane.program import Buffer, Program, Role, Task

SHAPE = (1, 4, 1, 2, 40)
SURFACE = layout_of(SHAPE)
SAME, DIFFERENT, TROUBLE = 0, 1, 2

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A file with one elementwise task and 600 bytes of constants nobody reads."""
    a, b, y = (Access(slot=slot, shape=SHAPE, strides=SURFACE.strides) for slot in (4, 5, 6))
    tasks = tuple(Task(e.words, e.offset) for e in get_chip("h13").emit([Elementwise(first=a, second=b, result=y)]))
    buffers = tuple(Buffer(name, slot, role, SURFACE.size, SURFACE) for name, slot, role in
                    (("a", 4, Role.INPUT), ("b", 5, Role.INPUT), ("y", 6, Role.OUTPUT)))
    return save_program(Program("h13", tasks, bytes(range(200)) * 3, buffers, "net"), tmp_path / "add.hwx")


def test_out_and_back_is_the_same_file(program: Path, tmp_path: Path, capsys: Capture) -> None:
    text, copy = tmp_path / "t.ane.s", tmp_path / "copy.hwx"
    assert main(["dis", str(program), "-o", str(text)]) == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["add.hwx", "t.ane.s", "t.bin"]
    assert main(["asm", str(text), "-o", str(copy)]) == 0
    assert copy.read_bytes() == program.read_bytes()
    assert main(["diff", str(program), str(copy)]) == SAME
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_what_is_printed_is_what_is_written(program: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["dis", str(program)]) == 0
    printed = capsys.readouterr().out
    assert main(["dis", str(program), "-o", str(tmp_path / "add.ane.s")]) == 0
    assert (tmp_path / "add.ane.s").read_text() == printed
    assert '\nsidecar "add.bin"  600 bytes  sha256 ' in printed
    assert "; Elementwise add: a 1x4x2x40 and b 1x4x2x40 -> y 1x4x2x40" in printed


def test_an_edited_field_is_the_only_difference(program: Path, tmp_path: Path, capsys: Capture) -> None:
    text, copy = tmp_path / "t.ane.s", tmp_path / "copy.hwx"
    assert main(["dis", str(program), "-o", str(text)]) == 0
    before, _, after = text.read_text().partition("RowStride.Stride")
    assert after
    head, _, tail = text.read_text().rpartition("RowStride.Stride")
    text.write_text(f"{head}RowStride.Stride{tail.replace('0x80', '0x100', 1)}")
    assert main(["asm", str(text), "-o", str(copy)]) == 0
    assert main(["diff", str(program), str(copy)]) == DIFFERENT
    out = capsys.readouterr().out
    assert "result row stride 128 -> 256 bytes  (TileDMADst.RowStride.Stride)" in out
    assert out.count("\n") == 3
    assert main(["diff", str(program), str(copy), "--json"]) == DIFFERENT
    document = json.loads(capsys.readouterr().out)
    assert document["same"] is False
    assert document["tasks"][0]["fields"][0]["bits"] == "[31:6]"
    changed = [i for i, (a, b) in enumerate(zip(program.read_bytes(), copy.read_bytes(), strict=True)) if a != b]
    assert len(changed) <= 4
    assert max(changed) - min(changed) < 4


def test_mistakes_have_line_and_column(tmp_path: Path, capsys: Capture) -> None:
    text = tmp_path / "x.ane.s"
    text.write_text("openane 1 hwx h13\nfile 40\nmacho 0x0\n  magik 3\n")
    assert main(["asm", str(text), "-o", str(tmp_path / "x.hwx")]) == FAILED
    captured = capsys.readouterr()
    assert "line 4, column 3: unknown field of macho; did you mean 'magic'?" in captured.err
    assert not (tmp_path / "x.hwx").exists()
    text.write_bytes(b"openane \xff")
    assert main(["asm", str(text), "-o", str(tmp_path / "x.hwx")]) == FAILED
    assert "not UTF-8" in capsys.readouterr().err
    assert main(["asm", str(tmp_path / "absent.s"), "-o", "x"]) == FAILED
    assert main(["asm", str(text)]) == USAGE


def test_trouble_is_status_2(program: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    for other in ("absent.hwx", "junk"):
        assert main(["diff", str(program), str(tmp_path / other)]) == TROUBLE
        assert capsys.readouterr().err.startswith("ane: error: ")
    assert main(["diff", str(program)]) == USAGE


def test_apple_files(corpus: Path, tmp_path: Path) -> None:
    for file in sorted(corpus.glob("apple/hwx/*.hwx")):
        assert main(["dis", str(file), "-o", str(tmp_path / "t.ane.s")]) == 0
        assert main(["asm", str(tmp_path / "t.ane.s"), "-o", str(tmp_path / "copy")]) == 0
        assert (tmp_path / "copy").read_bytes() == file.read_bytes(), file.name
