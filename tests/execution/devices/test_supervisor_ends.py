"""`ane simdriver -- COMMAND`: how it ends, whom signals reach, and our own programs under it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.killing import ENVIRONMENT
from support.supervised import LONGEST, SIMDRIVER, Ended, ended, program, supervised

import openane

EDGES = Path(__file__).parents[3] / "examples" / "walkthrough" / "edges.mil"


@pytest.mark.parametrize(("command", "status"), [
    (("sh", "-c", "echo $0 $2; exit 7", "--", "-x", "--json"), 7), (("sh", "-c", "kill -9 $$"), 137),
    (("no-such-program",), 127), (("/dev",), 126)])
def test_the_status_is_the_programs(command: tuple[str, ...], status: int) -> None:
    found = supervised(*command)
    assert (found.status, found.report["status"]) == (status, status)
    assert found.output == ("-- --json\n" if status == 7 else "")
    assert ("ane: error: " in found.errors) == (status in (126, 127))


def test_only_one_supervisor_can_watch_a_program() -> None:
    found = supervised(*SIMDRIVER, "--", "true")
    assert found.status == 1
    assert "already runs under a supervisor" in found.errors
    assert "linux?driver=simulated" in found.errors


def started(*command: str, options: Sequence[str] = ()) -> tuple[subprocess.Popen[str], str]:
    """A supervisor whose program runs, and the first line the program has printed."""
    process = subprocess.Popen([*SIMDRIVER, *options, "--", *command], env=ENVIRONMENT, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    assert process.stdout is not None
    return process, process.stdout.readline()


def finish(process: subprocess.Popen[str]) -> Ended:
    """Waits for its end."""
    output, errors = process.communicate(timeout=LONGEST)
    return ended(process.returncode, output, errors)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_go_to_the_program(number: int) -> None:
    process, first = started(sys.executable, "-c", program(f"""
        signal.signal({int(number)}, lambda *_: (print("bye"), sys.exit(5)))
        fd = open_node()
        print("ready", flush=True)
        while True:
            free(fd, init(fd)[0])
    """))
    if first:
        process.send_signal(number)
    found = finish(process)
    assert (first, found.status, found.output) == ("ready\n", 5, "bye\n")
    assert found.report["leaked_bytes"] == 0  # the signal may have come before the last buffer was freed


def test_the_end_of_the_service_ends_what_the_program_left_behind() -> None:
    process, first = started("sh", "-c", "setsid sleep 600 & echo $!; exit 3")
    if not first:
        finish(process)
    for _ in range(LONGEST * 2):
        process.send_signal(signal.SIGINT)  # the first may come before the shell's end is known, and kill that
        if process.poll() is not None:
            break
        time.sleep(0.5)
    process.communicate(timeout=LONGEST)
    assert process.returncode in (130, -signal.SIGINT)  # the latter when another comes at the very end
    with pytest.raises(ProcessLookupError):
        os.kill(int(first), 0)


def test_a_killed_supervisor_takes_its_program_along() -> None:
    process, first = started("sh", "-c", "echo $$; exec sleep 600")
    if not first:
        finish(process)
    process.kill()
    process.communicate(timeout=LONGEST)  # returns when the program no longer holds the pipe


def test_one_driver_serves_the_program_and_a_socket(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    process, first = started(sys.executable, "-c", program("""
        fd = open_node()
        init(fd)
        print("ready", flush=True)
        signal.pause()
    """), options=("--listen", str(path)))
    if first:
        with openane.open_device(f"linux?driver={path}") as device:
            memory = device.allocate(1000)
            memory[:] = 7
            assert (memory[:1000] == 7).all()
        process.send_signal(signal.SIGTERM)
    found = finish(process)
    assert (first, found.status) == ("ready\n", 128 + signal.SIGTERM)
    assert found.kinds == ["leak"]
    assert not path.exists()


def test_what_the_program_leaves_behind_is_served_to_its_end() -> None:
    late = program("time.sleep(0.4)\nfd = open_node()\nfree(fd, init(fd)[0])\nprint('late', version(fd)[0])")
    found = supervised("sh", "-c", 'setsid "$@" & exit 3', "sh", sys.executable, "-c", late)
    assert (found.status, found.output, found.kinds) == (3, "late ane\n", [])


def test_our_own_backend_runs_unmodified(tmp_path: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 1, 8, 32)).astype(np.float16)
    np.save(tmp_path / "image.npy", image)
    found = supervised(sys.executable, "-m", "openane", "run", str(EDGES), "--device", "linux:0", "--input",
                       f"image={tmp_path / 'image.npy'}", "--output-dir", str(tmp_path))
    assert found.status == 0, found.errors
    assert (found.report["submissions"], found.kinds) == (1, [])
    expected = openane.run(openane.compile(openane.load_graph(EDGES)), {"image": image})["edges"]
    np.testing.assert_array_equal(np.load(tmp_path / "edges.npy"), expected)
