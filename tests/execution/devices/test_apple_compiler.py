"""Apple's compiler through its C interface, over the stand-in, which writes a file it is given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.standin import weighted_sum

from openane.cli import main
from openane.devices.macos.apple_compiler import EVERYTHING, compile_by_apple, compile_folder
from openane.devices.macos.standin import SimulatedSymbols
from openane.errors import DeviceChanged, DeviceError, DeviceHung, DeviceRejected, DeviceUnavailable


@pytest.fixture
def hwx(tmp_path: Path) -> Path:
    """What the compiler is to write."""
    (tmp_path / "made.hwx").write_bytes(b"a program")
    return tmp_path / "made.hwx"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary directories are made here; none may be left."""
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


def test_a_graph_becomes_a_file(hwx: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    found = compile_by_apple(weighted_sum(), "h16", runtime="simulated", inject=f"hwx={hwx},report={report}")
    assert found == b"a program"
    assert report.read_text() == ""


def test_what_debugging_writes_is_kept(hwx: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    kept = tmp_path / "kept"
    compile_by_apple(weighted_sum(), "h13", EVERYTHING, runtime="simulated", inject=f"hwx={hwx}", keep=kept)
    assert [(path.name, path.read_text()) for path in kept.iterdir()] == [
        ("debug.txt", "mask 0x7fffffff\n")]


@pytest.mark.parametrize(("inject", "error", "said"), [
    ("", DeviceRejected, "status 0x1: .*the stand-in has no compiler"),
    ("exception,at=compile", DeviceRejected, "uncaught exception"),
    ("crash,at=compile", DeviceRejected, "ended with status -9"),
    ("missing-function=ANECCompile", DeviceChanged, "ANECCompile"),
    ("missing-library=ANECompiler", DeviceUnavailable, "ANECompiler.framework"),
    ("hang,at=compile", DeviceHung, "did not end within 2 s")])
def test_it_fails(inject: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said) as raised:
        compile_by_apple(weighted_sum(), runtime="simulated", inject=inject, timeout=2 if "hang" in inject else 60)
    assert type(raised.value) is error


def test_targets_are_known() -> None:
    with pytest.raises(DeviceError, match="no target 'h99'; it has h11, h12"):
        compile_by_apple(weighted_sum(), "h99")


@pytest.mark.parametrize(("inject", "target", "old", "said"), [
    ("compile", "h13", "", "ANECCompile\\(\\) FAILED"), ("", "h11", "", "target h11 is not supported"),
    ("", "h13", "mul(", "no_such_operation")])
def test_what_the_compiler_says(tmp_path: Path, inject: str, target: str, old: str, said: str) -> None:
    program, symbols = weighted_sum(), SimulatedSymbols(inject)
    (tmp_path / "model.mil").write_text(program.text.replace(old, "no_such_operation(") if old else program.text)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weight.bin").write_bytes(*program.weights.values())
    status, text = compile_folder(symbols, tmp_path, target, None)
    assert status == 1
    assert re.search(said, text)
    assert symbols.problems() == ()


def test_the_command(hwx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, made = weighted_sum(), tmp_path / "x.hwx"
    (tmp_path / "model.mil").write_text(program.text)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weight.bin").write_bytes(*program.weights.values())
    words = ["compile", str(tmp_path / "model.mil"), "-o", str(made), "--target", "h14", "--compiler"]
    assert main([*words, f"apple?runtime=simulated&inject=hwx={hwx}"]) == 0
    assert made.read_bytes() == b"a program"
    assert "the stand-in of Apple's compiler made for h14" in capsys.readouterr().err
    assert main([*words, "apple?runtime=simulated"]) == 1
    assert "the stand-in has no compiler" in capsys.readouterr().err
    assert main([*words[:3], str(tmp_path / "x.ane"), "--compiler", "apple"]) == 1
    assert ".hwx" in capsys.readouterr().err
    assert main([*words, "apple?colour=red"]) == 1
    assert "it has runtime, inject, timeout" in capsys.readouterr().err
    assert main([*words, "gcc"]) == 1
    assert "openane or apple" in capsys.readouterr().err
