"""What a server needs before it takes clients: room for its connections, and keys that are a file of keys."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from openane.cli import main
from openane.cli.serve import _bring_loops
from openane.devices import open_device
from openane.errors import FormatError, UnsupportedError
from openane.serving.guard import read_keys
from openane.serving.open_files import EACH, OTHERS, require_open_files
from openane.simulator import kernels


@pytest.fixture(name="limits")
def limits_of_this_process(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The limits that the process has, the newest last; a test states the first."""
    known: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: known[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: known.append(pair))
    return known


def test_the_limit_is_raised_as_far_as_is_needed(limits: list[tuple[int, int]]) -> None:
    for hard in (4096, resource.RLIM_INFINITY):
        limits[:] = [(100, hard)]
        require_open_files(200)
        assert limits[1:] == [(200 * EACH + OTHERS, hard)]
        require_open_files(200)
        assert len(limits) == 2


def test_more_connections_than_there_may_be_files_are_refused(limits: list[tuple[int, int]]) -> None:
    limits.append((100, 500))
    with pytest.raises(UnsupportedError, match=r"500 files open here(.|\n)*hint: --max-connections 218,"):
        require_open_files(256)
    require_open_files(218)
    assert limits[-1] == (500, 500)
    limits.append((30, 30))
    with pytest.raises(UnsupportedError, match="hint: raise the limit"):
        require_open_files(1)


def test_keys_without_end_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="at most 1048576 bytes"):
        read_keys(Path("/dev/zero"))
    (tmp_path / "keys").write_text("# ours\n\nopen-sesame\n")
    assert read_keys(tmp_path / "keys") == ("open-sesame",)


def test_a_server_without_room_does_not_start(limits: list[tuple[int, int]],
                                              capsys: pytest.CaptureFixture[str]) -> None:
    limits.append((40, 40))
    assert main(["serve", "no-model", "--port", "0"]) == 1
    assert "--max-connections: a process may have 40 files open here" in capsys.readouterr().err


def test_loops_are_compiled_before_there_are_clients(monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    brought: list[bool] = []
    monkeypatch.setattr(kernels, "kernels", lambda: brought.append(True))
    with open_device("simulator") as device:
        for kept in (True, False):
            monkeypatch.setattr(kernels, "at_hand", lambda kept=kept: kept)
            _bring_loops(device)
    assert brought == [True]
    assert "once on this machine" in capsys.readouterr().err
