"""What commands write: whole or not at all, by its name in messages, and never over what they read."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.examples import EXAMPLES

from openane.cli import main

SMALL = 1000
"""Bytes a file may have where there is no room, fewer than anything here has."""
COMMANDS = (("convert", "-o", "x.mil"), ("convert", "-o", "x.onnx"), ("convert", "-o", "x.mlpackage"),
            ("quantize", "--no-time", "--least", "10", "-o", "x.onnx"),
            ("quantize", "--no-time", "--least", "10", "-o", "x.mil"),
            ("compile", "--no-cache", "-o", "x.hwx"), ("compile", "--no-cache", "-o", "x.ane"),
            ("profile", "--html", "x.html"), ("profile", "--trace", "x.json"), ("check", "--page", "x.html"),
            ("compile", "--no-cache", "--target", "h13,h14", "-o", "x.ane", "--page", "x.html"))


@pytest.fixture(name="digits")
def digits_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model in an otherwise empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(EXAMPLES / "digits" / "digits.onnx", "digits.onnx"))


@pytest.fixture(name="little_room")
def files_of_few_bytes(digits: Path) -> Iterator[None]:
    """Longer files cannot be written, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_where_there_is_no_room_nothing_is_left(command: tuple[str, ...], little_room: None, digits: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command[0], str(digits), *command[1:]]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("ane: error: x.")
    assert message.endswith("File too large")
    assert os.listdir() == ["digits.onnx"]


@pytest.mark.parametrize("command", [("convert", "-o"), ("profile", "--html"), ("quantize", "-o")], ids=" ".join)
def test_a_model_is_not_written_over(command: tuple[str, ...], digits: Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    before = digits.read_bytes()
    os.symlink(digits, "other.onnx")
    for name in ("digits.onnx", str(digits.absolute()), "other.onnx"):
        assert main([command[0], str(digits), command[1], name]) == 1
        assert "written over what is read" in capsys.readouterr().err
    assert digits.read_bytes() == before


def test_a_name_that_is_no_text(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"\xff")
    shutil.copy(digits, f"{name}.onnx")
    assert main(["compile", f"{name}.onnx", "-o", f"{name}.hwx"]) == 0
    assert main(["info", f"{name}.hwx"]) == 0
    assert "\\udcff.hwx" in capsys.readouterr().out
    assert main(["convert", f"{name}.onnx", "-o", f"{name}.mil"]) == 1
    assert "is not text in UTF-8" in capsys.readouterr().err
    assert main(["run", f"{name}.hwx", "--device", "linux?driver=simulated", "--record", f"{name}.trace"]) == 1
    assert "is not text in UTF-8" in capsys.readouterr().err
    Path("farm.toml").write_text('[farm]\nactions = ["compile"]\n[[models]]\nfiles = "*.onnx"\n')
    assert main(["farm", "farm.toml", "--workers", "0"]) == 0
    assert "\\udcff.onnx" in capsys.readouterr().out


def test_a_folder_of_outputs_is_made_when_there_are_outputs(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "nothing.onnx", "--output-dir", "made/below"]) == 1
    assert os.listdir() == ["digits.onnx"]
    assert main(["run", str(digits), "--output-dir", "digits.onnx/below"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "ane: error: digits.onnx: Not a directory"
    assert main(["run", str(digits), "--output-dir", "made/below"]) == 0
    assert os.listdir("made/below") == ["probabilities.npy"]


def test_one_stream_goes_to_standard_output(digits: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["compile", str(digits), "-o", "x.hwx"]) == 0
    assert main(["dis", "x.hwx", "-o", "x.ane.s"]) == 0
    capfdbinary.readouterr()
    assert main(["asm", "x.ane.s", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == Path("x.hwx").read_bytes()
    assert main(["dis", "x.hwx", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out.startswith(b"openane ")
    assert not Path("-").exists()


def test_a_text_is_not_assembled_under_the_name_of_another_format(digits: Path,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    for kind, other in (("hwx", "anec"), ("anec", "hwx")):
        assert main(["compile", str(digits), "-o", f"x.{kind}"]) == 0
        assert main(["dis", f"x.{kind}", "-o", "x.ane.s"]) == 0
        assert main(["asm", "x.ane.s", "-o", f"y.{other}"]) == 1
        assert f"limit .{kind}, found .{other}" in capsys.readouterr().err
        assert main(["asm", "x.ane.s", "-o", f"y.{kind}"]) == 0
        assert Path(f"y.{kind}").read_bytes() == Path(f"x.{kind}").read_bytes()
        assert not Path(f"y.{other}").exists()
        os.unlink(f"y.{kind}")
