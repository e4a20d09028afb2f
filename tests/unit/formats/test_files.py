"""Files told apart by content, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openane.errors import FormatError, ProgramError
from openane.formats import detect, load_program, save_program, write_anec, write_hwx
from openane.formats.files import write_atomically
from openane.program import Program


def test_content_decides(small: Program, tmp_path: Path) -> None:
    hwx, anec = write_hwx(small), write_anec(small, header=0x800)
    assert (detect(hwx), detect(anec)) == ("hwx", "anec")
    misnamed = tmp_path / "program.anec"
    misnamed.write_bytes(hwx)
    assert load_program(misnamed) == load_program(bytearray(hwx)) == small
    assert load_program(misnamed).origin["file"] == str(misnamed)


@pytest.mark.parametrize("data", [b"", b"\xce\xfa", b"PK\3\4" + bytes(5000), bytes(0x1000)])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        load_program(data)


def test_files_that_cannot_be_opened_are_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        load_program(tmp_path / "nothing.hwx")
    with pytest.raises(FormatError, match="cannot be read"):
        load_program(tmp_path)


def test_damaged_files_are_named_and_judged_by_their_own_reader(small: Program, tmp_path: Path) -> None:
    for name, data, reason in (("a.hwx", write_hwx(small)[:5000], "reaches outside"),
                               ("b.anec", write_anec(small)[:-1], "fits no header size"),
                               ("c.bin", b"nothing", "not a compiled program")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FormatError, match=f"^{tmp_path / name}: .*{reason}") as caught:
            load_program(tmp_path / name)
        assert caught.value.expected is not None


def test_a_target_that_cannot_be_written_is_named(small: Program, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        save_program(small, tmp_path / "nowhere" / "a.hwx")
    assert caught.value.filename == str(tmp_path / "nowhere" / "a.hwx")


def test_saving(small: Program, tmp_path: Path) -> None:
    assert load_program(save_program(small, tmp_path / "a.hwx")) == small
    assert save_program(small, tmp_path / "b.anec", header=0x800).read_bytes() == write_anec(small, 0x800)
    assert save_program(small, tmp_path / "c.hwx", layout="compat").read_bytes() == write_hwx(small, "compat")
    with pytest.raises(ProgramError, match=r"\.hwx or \.anec"):
        save_program(small, tmp_path / "d.txt")
    with pytest.raises(ProgramError):
        save_program(small, tmp_path / "a.hwx", layout="unknown")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.hwx", "b.anec", "c.hwx"]
    assert load_program(tmp_path / "a.hwx") == small


def test_writing_keeps_links_modes_pipes_and_folders(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    real.write_bytes(b"before")
    real.chmod(0o640)
    link.symlink_to("real")
    write_atomically(link, b"after")
    assert link.is_symlink()
    assert (real.read_bytes(), real.stat().st_mode & 0o777) == (b"after", 0o640)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_atomically(tmp_path / "folder", b"data")
    assert caught.value.filename == str(tmp_path / "folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "link", "pipe", "real"]
