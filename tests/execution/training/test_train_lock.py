"""One training per folder: the second is told who has it, and a holder that is killed leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.killing import ENVIRONMENT
from support.trainings import endless, toml, training

from openane.cli import main
from openane.training.lock import NAME, FolderInUse, FolderLock

HOLDER = """
import sys
from pathlib import Path
from openane.training.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that holds the folder's lock until its input ends."""
    made = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, env=ENVIRONMENT)
    assert made.stdout is not None
    assert made.stdout.readline() == "held\n"
    return made


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_other_process_is_named_and_its_end_frees_the_folder(end: signal.Signals, tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        with pytest.raises(FolderInUse, match=f"in use: process {other.pid} on ") as caught:
            FolderLock(tmp_path)
        assert caught.value.holder.startswith(f"process {other.pid} on ")
        other.send_signal(end)
        other.wait()
    FolderLock(tmp_path).close()


def test_the_command_is_refused_before_it_computes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text(toml(endless(tmp_path, 2) | {"training": {"steps": 2, "batch": 20}}))
    line = ["train", str(tmp_path / "config.toml"), "--output", str(tmp_path / "out")]
    with holder(tmp_path / "out") as other:
        for more in ([], ["--resume"]):
            assert main([*line, *more]) == 1
            told = capsys.readouterr()
            assert f"is in use: process {other.pid} on" in told.err
            assert told.out == ""
        assert other.stdin is not None
        other.stdin.close()
        other.wait()
    assert main(line) == 0


def test_two_trainings_of_one_process(tmp_path: Path) -> None:
    table = endless(tmp_path, 2)
    with training(table, tmp_path / "out"):
        with pytest.raises(FolderInUse, match=str(os.getpid())):
            training(table, tmp_path / "out")
        with training(table, tmp_path / "other"):
            pass
    with training(table, tmp_path / "out"):
        pass


def test_a_training_that_cannot_start_leaves_no_lock(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no device is called"):
        training(endless(tmp_path, 2) | {"engine": {"device": "nothing"}}, tmp_path / "out")
    FolderLock(tmp_path / "out").close()


def test_what_the_file_says_is_not_trusted(tmp_path: Path) -> None:
    with holder(tmp_path):
        (tmp_path / NAME).write_bytes(b"\x1b[2J\xff" * 1000)
        with pytest.raises(FolderInUse) as caught:
            FolderLock(tmp_path)
        assert caught.value.holder == "another process"


def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    with training(endless(tmp_path, 2), tmp_path / "out") as made:
        assert "cannot be locked" in next(made.run())["notes"][0]
