"""The end of workers: with their device, with the process that started them, and never by an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer

import pytest
from support.macos import ONES, device, kept_clean, made

import openane as ane
from openane.compiler import Model
from openane.errors import DeviceError, DeviceUnavailable


@pytest.fixture(scope="module")
def model() -> Model:
    return made("mul")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from kept_clean(tmp_path, monkeypatch)


PARENT = """
import sys, time, numpy as np, openane as ane
from openane.ops.build import GraphBuilder
b = GraphBuilder()
model = ane.compile(b.finish({"y": b.single("relu", x=b.input("x", "fp16", (1, 8, 1, 16)))}))
device = ane.open_device(sys.argv[1])
loaded = device.load(model)
print(device._host._process._process.pid, flush=True)
loaded.run({"x": np.ones((1, 8, 1, 16), np.float16)}) if "hang" in sys.argv[1] else time.sleep(60)
"""


@pytest.mark.parametrize("inject", ["", "hang"])
def test_a_worker_does_not_outlive_the_process_that_started_it(place: Path, inject: str) -> None:
    started = subprocess.Popen([sys.executable, "-c", PARENT, device(place, inject, worker="on", timeout=60)],
                               stdout=subprocess.PIPE)
    assert started.stdout is not None
    process = int(started.stdout.readline())
    time.sleep(0.2)
    assert list(place.iterdir())
    started.kill()
    started.communicate()
    for _ in range(100):
        if not alive(process) and not list(place.iterdir()):
            break
        time.sleep(0.1)
    assert not alive(process)


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process}/stat")
    return not (stat.exists() and ") Z " in stat.read_text())


def test_an_interrupt_does_not_reach_the_worker(place: Path, model: Model) -> None:
    with ane.open_device(device(place, worker="on")) as opened, opened.load(model) as executable:
        os.kill(opened._host._process._process.pid, signal.SIGINT)  # type: ignore[attr-defined]
        assert (executable.run({"x": ONES})["y"] == 2).all()


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Ctrl-C interrupts, also in a process that was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupted_run_is_not_answered_later(place: Path, model: Model, interrupts: None) -> None:
    with ane.open_device(device(place, "hang,after=1", worker="on", timeout=60)) as opened, \
            opened.load(model) as executable:
        executable.run({"x": ONES})
        timer = Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            executable.run({"x": ONES})
        timer.join()
        assert (executable.run({"x": 3 * ONES})["y"] == 6).all()


FORKING = """
import os, sys
from support.macos import ONES, made
import openane as ane
model = made("mul")
with ane.open_device(sys.argv[1]) as device, device.load(model) as loaded:
    child = os.fork()
    if child == 0:
        try:
            loaded.run({"x": ONES})
        except ane.DeviceError as error:
            sys.exit(7 if "spawn" in str(error) else 8)
        os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (loaded.run({"x": ONES})["y"] == 2).all()
"""


@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_forked_child_is_refused_and_takes_nothing_away(place: Path, switch: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FORKING, device(place, worker=switch)], env=environment, check=False,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_closed_things_say_so(place: Path, model: Model) -> None:
    for switch in ("on", "off"):
        opened = ane.open_device(device(place, worker=switch))
        executable = opened.load(model)
        opened.close()
        opened.close()
        with pytest.raises(DeviceError, match="closed"):
            executable.run({"x": ONES})
        with pytest.raises(DeviceError, match="the device is closed"):
            opened.load(model)
        executable.close()


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(DeviceUnavailable, match=r"no worker process can be started.*\nhint: worker=off"):
        ane.open_device("macos?runtime=simulated")
