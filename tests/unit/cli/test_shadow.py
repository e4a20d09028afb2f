"""A warning tells when another command or module is called `ane`."""

import os
import sysconfig
from pathlib import Path

import pytest

from openane.cli import main
from openane.cli.shadow import shadows


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of scripts that holds our command and is alone on the path."""
    folder = tmp_path / "ours"
    script(folder)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def script(folder: Path) -> None:
    folder.mkdir()
    (folder / "ane").write_text("#!/bin/sh\n")
    (folder / "ane").chmod(0o755)


def test_alone_there_is_nothing_to_say(scripts: Path) -> None:
    assert list(shadows()) == []


def test_another_command_first_on_the_path(scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    script(tmp_path / "theirs")
    monkeypatch.setenv("PATH", f"{tmp_path / 'theirs'}{os.pathsep}{scripts}")
    assert main(["chips", "h13", "--json"]) == 0
    captured = capsys.readouterr()
    assert f"the command ane is another one, {tmp_path / 'theirs' / 'ane'}" in captured.err
    assert captured.out.startswith("{")


def test_a_module_of_that_name(scripts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ane.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    (text,) = shadows()
    assert str(tmp_path / "ane.py") in text
