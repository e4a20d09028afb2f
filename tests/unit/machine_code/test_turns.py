"""Processes that compile the same loops take turns."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from openane.machine_code import machine, turns
from openane.machine_code.described import TaskLoop
from openane.machine_code.turns import is_taken, turn
from openane.simulator import kernels

HOLDER = """
import sys, time
from pathlib import Path
from openane.machine_code.turns import turn
with turn([Path(sys.argv[1])]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the lock is, in a folder that is not there yet."""
    return tmp_path / "new" / "lock"


@pytest.fixture
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, whose turn it is until it is told something."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_turn_is_taken_and_given_back(place: Path) -> None:
    assert not is_taken([place])
    with turn([place]):
        assert is_taken([place])
    assert not is_taken([place])


def test_another_process_is_waited_for(place: Path, holder: subprocess.Popen[str]) -> None:
    assert is_taken([place])
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            holder.communicate("go on\n")

    with mock.patch.object(turns.time, "sleep", pause), turn([place]):
        assert holder.poll() == 0
    assert len(pauses) == 3


def test_a_process_that_was_killed_holds_nothing(place: Path, holder: subprocess.Popen[str]) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert not is_taken([place])
    with mock.patch.object(turns.time, "sleep", side_effect=AssertionError("waited")), turn([place]):
        pass


@pytest.mark.usefixtures("holder")
def test_nobody_waits_for_ever(place: Path) -> None:
    start = time.monotonic()
    with mock.patch.object(turns, "PATIENCE", 0.3), turn([place]):
        assert time.monotonic() - start >= 0.3


def test_the_next_place_is_taken_where_one_cannot_be_written(tmp_path: Path, place: Path) -> None:
    (tmp_path / "file").write_text("")
    impossible = tmp_path / "file" / "lock"
    with turn([impossible, place]):
        assert is_taken([place])
    with turn([impossible]):
        assert not is_taken([impossible])
    with turn([]):
        assert not is_taken([])


def test_where_there_are_no_locks_nobody_waits(place: Path) -> None:
    with mock.patch.object(turns.fcntl, "flock", side_effect=OSError("no locks")), turn([place]):
        assert not is_taken([place])
    with mock.patch.object(turns, "fcntl", None), turn([place]):
        assert not is_taken([place])


def test_what_another_process_kept_meanwhile_is_not_compiled_again(tmp_path: Path) -> None:
    with mock.patch.object(machine, "kept", side_effect=[None, "what it kept"]), \
            mock.patch.object(machine, "_locks", return_value=[tmp_path / "lock"]), \
            mock.patch.object(machine, "_made", side_effect=AssertionError("compiled again")):
        assert machine.functions([TaskLoop(print, ())], "loops of a test") == "what it kept"


def test_numpy_goes_on_while_another_process_compiles() -> None:
    cold = mock.Mock(cache_info=lambda: mock.Mock(currsize=0))
    for elsewhere in (True, False):
        with mock.patch.object(kernels, "kernels", cold), \
                mock.patch.object(machine, "is_made_elsewhere", return_value=elsewhere):
            assert kernels.worth(kernels.PATIENCE, 0) is not elsewhere
    with mock.patch.object(kernels, "kernels", cold), \
            mock.patch.object(machine, "is_made_elsewhere", side_effect=ImportError):
        assert kernels.worth(kernels.PATIENCE, 0)  # brings nothing, and is not asked again
