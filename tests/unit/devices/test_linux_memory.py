"""Memory of the Linux backend: who owns it, when it goes, and what happens to arrays that outlive it."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.h13 import layout_of
from support.linux_kernels import CountingKernel, IdleKernel
from support.verifier_programs import surface

from openane.chips import get_chip
from openane.devices.linux.device import LinuxDevice
from openane.devices.linux.interface import DRM_VERSION, NODE, SUBMIT, WINDOW_SIZE, Submit, Version
from openane.devices.linux.real import RealKernel
from openane.engine import Elementwise
from openane.errors import DeviceChanged, DeviceError, DeviceHung, DeviceRejected, VerifyError
from openane.program import Buffer, Program, Role, Task

LAYOUT = layout_of((1, 4, 1, 3, 32))
X = np.ones((1, 4, 3, 32), np.float16)
TESTS = Path(__file__).parents[2]


def negation(chip: str = "h13", source: int = LAYOUT.size, tasks: int = 1) -> Program:
    """y = -x, several times over; `source` bytes for x."""
    emitted = get_chip(chip).emit([Elementwise(first=surface(4, LAYOUT.shape), result=surface(9, LAYOUT.shape),
                                               scale=-1.0)] * tasks)
    buffers = [Buffer("x", 4, Role.INPUT, source, None), Buffer("y", 9, Role.OUTPUT, LAYOUT.size, LAYOUT),
               Buffer("unused", 12, Role.INPUT, 64, None)]
    return Program(chip, tuple(Task(t.words, t.offset) for t in emitted), bytes(range(256)) * 600, tuple(buffers))


def opened(kernel: Any, **options: Any) -> LinuxDevice:
    return LinuxDevice(kernel, NODE.format(0), "linux:0", **options)


@pytest.fixture
def kernel() -> Iterator[CountingKernel]:
    made = CountingKernel(IdleKernel())
    yield made
    gc.collect()
    assert made.held == (0, 0, 0)


def test_arrays_that_outlive_the_device_keep_what_they_hold(kernel: CountingKernel) -> None:
    with opened(kernel) as device:
        kept, part = device.allocate(40_000), device.allocate(100)[10:20]
        dropped = device.allocate(5)
        assert not kept.any()
        kept[:], part[:] = 5, 6
        del dropped
        assert len(kernel.handles) == 2
    assert kernel.held[:2] == (0, 0)
    assert (kept == 5).all()
    assert (part == 6).all()
    kept[-1] = 9
    device.close()
    assert kept[-1] == 9
    with pytest.raises(DeviceError, match="closed"):
        device.allocate(1)


def test_what_nobody_can_reach_is_freed(kernel: CountingKernel) -> None:
    device = opened(kernel)
    view = memoryview(device.allocate(100)[5:].view(np.int8))
    for _ in range(50):
        device.allocate(100)
    assert len(kernel.handles) == 1
    executable: Any = device.load(negation())
    held = len(kernel.handles)
    executable.circle = executable
    del executable, device
    gc.collect()
    assert len(kernel.handles) == 1 < held
    del view


def test_sizes(kernel: CountingKernel) -> None:
    with opened(kernel) as device:
        assert [device.allocate(size).size for size in (0, 1, 16384, 16385)] == [0, 1, 16384, 16385]
        for size in (-1, WINDOW_SIZE + 1, 1 << 70):
            with pytest.raises(DeviceError, match="cannot be allocated"):
                device.allocate(size)


def test_only_memory_of_the_device_can_be_bound(kernel: CountingKernel) -> None:
    with opened(kernel) as device, opened(kernel) as other, device.load(negation()) as executable:
        good = device.allocate(LAYOUT.size + 1)
        executable.bind("y", good)
        executable.bind("y", good[:LAYOUT.size])
        for wrong, text in ((np.zeros(LAYOUT.size, np.uint8), "allocate"), (good[1:], "from its beginning"),
                            (other.allocate(LAYOUT.size), "allocate"), (device.allocate(10), r"uint8 \[10\]"),
                            (good[:768].view(np.int8), "not int8"), (good[:768].reshape(2, -1), "one-dimensional")):
            with pytest.raises(DeviceError, match=text):
                executable.bind("y", wrong)
            with pytest.raises(DeviceError, match=text):
                device.load(negation(), {"y": wrong})
        with pytest.raises(DeviceError, match="'x' cannot lie in the memory of 'y'"):
            executable.bind("x", good)
        both = device.allocate(LAYOUT.size)
        for name in ("x", "unused"):  # two that are only read may
            executable.bind(name, both)
        executable.execute()
        for name in ("z", ""):
            with pytest.raises(DeviceError, match=f"no buffer is called '{name}'"):
                executable.bind(name, good)
        with pytest.raises(DeviceError, match="has no buffer 'z'; it has x, y, unused"):
            device.load(negation(), {"z": good})


def submissions(kernel: CountingKernel) -> list[Submit]:
    """The SUBMIT structures a kernel gets from now on."""
    found: list[Submit] = []
    inner = kernel.inner.ioctl

    def ioctl(fd: int, request: int, argument: bytearray) -> None:
        if request == SUBMIT:
            found.append(Submit.unpack(argument))
        inner(fd, request, argument)

    kernel.inner.ioctl = ioctl  # type: ignore[method-assign]
    return found


def test_channels_are_the_slots_the_tasks_name(kernel: CountingKernel) -> None:
    found = submissions(kernel)
    with opened(kernel) as device, device.load(negation(tasks=3)) as executable:
        executable.execute()
        [request] = found
        assert [slot for slot, handle in enumerate(request.handles) if handle] == [0, 4, 9]
        assert (request.task_count, request.first_task_size, request.pad) == (3, 0x274, 0)
        assert request.bootstrap not in (0, *request.handles)
        before = request.handles
        executable.bind("x", device.allocate(LAYOUT.size))
        executable.execute()
        assert [slot for slot in range(32) if found[1].handles[slot] != before[slot]] == [4]


def test_only_verified_programs_for_its_chip(kernel: CountingKernel) -> None:
    with opened(kernel) as device:
        with pytest.raises(VerifyError):
            device.load(negation(source=LAYOUT.size - 64))
        with pytest.raises(DeviceError, match="is h13, the program is for h14"):
            device.load(Program("h14", ()))
        assert len(kernel.handles) == 0


@pytest.mark.parametrize("place", [0, 0x270, 0x280, 0x280 + 70_000, -1])
def test_command_bytes_that_changed_are_not_submitted(kernel: CountingKernel, place: int) -> None:
    found = submissions(kernel)
    with opened(kernel) as device:
        executable: Any = device.load(negation())
        commands = executable._commands
        buffer = commands._bootstrap if place < 0 else commands._command
        buffer.array()[max(place, 4)] ^= 1
        late = place > 70_000  # constants are looked at block by block
        if late:
            executable.execute()
        with pytest.raises(DeviceRejected, match="is no longer what was verified"):
            executable.execute()
        assert len(found) == late


def test_a_submission_that_does_not_return(kernel: CountingKernel) -> None:
    """Its memory is freed, and the node closed, when it does; until then nothing else is asked for."""
    ends = threading.Event()
    kernel.submitted = partial(ends.wait, 20)
    device = opened(kernel, timeout=0.02)
    executable = device.load(negation())
    with pytest.raises(DeviceHung, match=r"did not end within 0\.02 s"):
        executable.execute()
    with pytest.raises(DeviceHung, match="still has not returned"):
        executable.execute()
    held = kernel.held
    executable.close()
    device.close()
    assert kernel.held[:2] == held[:2]
    ends.set()
    for thread in [each for each in threading.enumerate() if each.name == "ane submission"]:
        thread.join(20)
    assert kernel.held[:2] == (0, 0)


def test_a_limit_of_ones_own_does_no_harm(kernel: CountingKernel) -> None:
    with opened(kernel, timeout=20.0) as device, device.load(negation()) as executable:
        executable.execute()
        kernel.fail("SUBMIT", errno.EINVAL)
        with pytest.raises(DeviceRejected):
            executable.execute()
        executable.execute()


def test_a_collection_in_the_middle_of_a_call_waits_for_its_turn(kernel: CountingKernel) -> None:
    """Otherwise a request would begin inside another one, in a client whose locks are held."""
    inside: list[str] = []
    with opened(kernel) as device, device.load(negation()) as executable:
        arrays = [device.allocate(10)]
        before = len(kernel.handles)
        inner = kernel.inner.ioctl

        def ioctl(fd: int, request: int, argument: bytearray) -> None:
            inside.append(threading.current_thread().name)
            assert inside.count(inside[-1]) == 1
            arrays.clear()
            inner(fd, request, argument)
            inside.remove(threading.current_thread().name)

        kernel.inner.ioctl = ioctl  # type: ignore[method-assign]
        executable.execute()
        for thread in [each for each in threading.enumerate() if each.name == "ane finalizer"]:
            thread.join(20)
        assert len(kernel.handles) == before - 1


def test_a_forked_process_leaves_its_parents_memory_alone(kernel: CountingKernel) -> None:
    with opened(kernel) as device:
        kept = device.allocate(10)
        child = os.fork()
        if not child:
            before = sum(kernel.calls.values())
            try:
                device.allocate(10)
            except DeviceError as error:
                if "the process that opened it" in str(error):
                    del kept, device
                    gc.collect()
                    os._exit(sum(kernel.calls.values()) != before)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(kernel.handles) == 1
    assert not kept.any()


AT_EXIT = """
import atexit, sys
sys.path.insert(0, {tests!r})
from support.linux_kernels import CountingKernel, IdleKernel
kernel = CountingKernel(IdleKernel())
atexit.register(lambda: print(kernel.held))
from openane.devices.linux.device import LinuxDevice
device = LinuxDevice(kernel, "/dev/accel/accel0", "linux:0")
kept = device.allocate(10)
again = LinuxDevice(kernel, "/dev/accel/accel0", "linux:0").allocate(10)
{end}
"""


@pytest.mark.parametrize("end", ["", "raise ValueError", "sys.exit(3)"])
def test_the_end_of_the_interpreter_frees_everything(end: str) -> None:
    path = os.pathsep.join([str(TESTS.parent / "src"), *sys.path])
    ran = subprocess.run([sys.executable, "-c", AT_EXIT.format(tests=str(TESTS), end=end)], capture_output=True,
                         text=True, timeout=60, env={"PYTHONPATH": path}, check=False)
    assert ran.stdout == "(0, 0, 0)\n", ran.stderr
    assert bool(ran.stderr) is ("ValueError" in end)


class PlainMapping(bytearray):
    """Memory that is no mapping of the operating system."""

    def close(self) -> None: ...


def test_memory_that_cannot_be_replaced_is_refused_and_freed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = CountingKernel(IdleKernel())
    monkeypatch.setattr(kernel, "map", lambda fd, length, offset: PlainMapping(length))
    device = opened(kernel)
    kept = device.allocate(10)
    with pytest.raises(DeviceError, match=r"an array over the allocated memory \(16384 bytes\) is still there"):
        device.close()
    kept[:] = 1
    assert kernel.held[:2] == (1, 1)
    del kept
    assert kernel.held[:2] == (0, 0)


def test_answers_no_driver_gives(kernel: CountingKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(kernel) as device:
        monkeypatch.setattr(kernel, "map", lambda fd, length, offset: PlainMapping(length - 1))
        with pytest.raises(DeviceChanged, match="expected 16384 bytes, found 16383 bytes"):
            device.allocate(1)
        assert kernel.held == (1, 0, 0)
        monkeypatch.setattr(kernel, "ioctl", lambda fd, request, argument: None)
        with pytest.raises(DeviceChanged, match="a handle above 0, found 0"):
            device.allocate(1)


def test_version_is_asked_for_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the lengths, then the texts, written to where the structure points."""
    import fcntl

    texts, asked = (b"ane", b"20230103", b"Apple Neural Engine driver"), []

    def ioctl(fd: int, request: int, argument: bytearray, mutate: bool) -> int:
        assert (fd, request, mutate) == (7, DRM_VERSION, True)
        version = Version.unpack(argument)
        asked.append((version.name_length, bool(version.name)))
        for text, place, room in zip(texts, (version.name, version.date, version.description),
                                     (version.name_length, version.date_length, version.description_length),
                                     strict=True):
            if place:
                ctypes.memmove(place, text, min(room, len(text)))
        version.name_length, version.date_length, version.description_length = map(len, texts)
        argument[:] = version.pack()
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    assert RealKernel().version(7) == ("ane", "20230103", "Apple Neural Engine driver")
    assert asked == [(0, False), (3, True)]
