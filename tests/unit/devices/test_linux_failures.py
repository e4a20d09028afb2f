"""Every errno at every call of the Linux backend: the right error, and nothing that was not given back."""

from __future__ import annotations

import errno
from typing import Any

import numpy as np
import pytest
from support.h13 import layout_of
from support.linux_kernels import CALLS, CountingKernel, IdleKernel
from support.verifier_programs import surface

from openane.chips import get_chip
from openane.devices.linux.device import LinuxDevice
from openane.devices.linux.interface import NODE, Submit
from openane.devices.linux.kernel import Kernel
from openane.devices.linux.opening import open_real
from openane.engine import Binary, Elementwise
from openane.errors import BudgetExhausted, DeviceHung, DeviceRejected, DeviceUnavailable, SubmitFailed
from openane.program import Buffer, Program, Role, Task
from openane.program.verify import Verified, verify

CYCLES = 1000
LAYOUT = layout_of((1, 4, 1, 3, 32))
ERRORS: dict[int, type[Exception] | None] = {
    errno.EINVAL: DeviceRejected, errno.ETIMEDOUT: DeviceHung, errno.ENOMEM: BudgetExhausted,
    errno.ENOSPC: BudgetExhausted, errno.ENODEV: DeviceUnavailable, errno.ENOENT: DeviceUnavailable,
    errno.EACCES: DeviceUnavailable, errno.EPERM: DeviceUnavailable, errno.EIO: SubmitFailed,
    errno.EFAULT: SubmitFailed, errno.ENOTTY: SubmitFailed, errno.EBADF: SubmitFailed, errno.EINTR: None}
"""Errno to the error it is raised as; None: the call is made again."""
NAME = NODE.format(0)


def opened(kernel: Kernel, number: int) -> LinuxDevice:
    """Engine `number` behind a kernel."""
    found = open_real(kernel, number)
    return LinuxDevice(found.kernel, found.path, found.name)


def adder() -> Verified:
    """y = x + state, laid out for the driver."""
    x, state, y = (surface(slot, LAYOUT.shape) for slot in (4, 5, 6))
    tasks = get_chip("h13").emit([Elementwise(first=x, second=state, result=y, function=Binary.ADD)], "compat")
    buffers = [Buffer(name, slot, role, LAYOUT.size, LAYOUT) for name, slot, role in
               (("x", 4, Role.INPUT), ("state", 5, Role.STATE), ("y", 6, Role.OUTPUT))]
    return verify(Program("h13", tuple(Task(t.words, t.offset) for t in tasks), buffers=tuple(buffers)))


PROGRAM = adder()
X = np.ones((1, 4, 3, 32), np.float16)


def whole(kernel: CountingKernel) -> None:
    """Everything a client does: find the node, allocate, load over shared memory, rebind, run, close."""
    with opened(kernel, 0) as device:
        state = device.allocate(LAYOUT.size)
        with device.load(PROGRAM, {"state": state}) as executable:
            executable.run({"x": X})
            executable.bind("x", device.allocate(LAYOUT.size))
            executable.run({"x": X})


def short(kernel: CountingKernel) -> None:
    """One buffer that outlives the device, one submission."""
    with LinuxDevice(kernel, NAME, "linux:0") as device:
        kept = device.allocate(1)
        device._connection.submit(SUBMISSION)
    assert kept.size == 1


SUBMISSION = bytes(Submit().pack())


def counts(kernel: CountingKernel, cycle: Any) -> dict[str, int]:
    """How often a cycle makes each call."""
    cycle(kernel)
    assert kernel.held == (0, 0, 0)
    return {call: kernel.calls[call] for call in CALLS}


def expected(call: str, code: int) -> type[Exception] | None:
    """What a failing call is raised as. A mapping that cannot be closed is replaced: nobody needs to know; a node that
    is closed is closed."""
    if call == "munmap" or (call == "close" and code == errno.EINTR):
        return None if call == "munmap" else SubmitFailed
    return ERRORS[code]


def raised(cycle: Any, kernel: CountingKernel) -> type[Exception] | None:
    """The kind of error a cycle ends with."""
    try:
        cycle(kernel)
    except Exception as error:
        return type(error)
    return None


def fails(kernel: CountingKernel, cycle: Any, call: str, code: int, after: int, quiet: bool = False) -> None:
    """One cycle with one failure, which surfaces as it should; nothing is held afterwards. `quiet`: unless it happened
    to a finalizer, which tries again."""
    kernel.fail(call, code, after)
    wanted = expected(call, code)
    found = raised(cycle, kernel)
    assert found is wanted or (quiet and found is None), f"{call} number {after}, {errno.errorcode[code]}"
    assert kernel.struck
    assert kernel.held == (0, 0, 0), f"{call} number {after}, {errno.errorcode[code]}"


@pytest.mark.parametrize("call", CALLS)
def test_every_errno_at_every_place(call: str) -> None:
    kernel = CountingKernel(IdleKernel())
    for after in range(counts(kernel, whole)[call]):
        for code in ERRORS:
            if call in ("nodes", "open", "VERSION", "close") and after == 0:
                continue  # the first of these looks for engines: see test_looking_for_engines
            fails(kernel, whole, call, code, after, quiet=call == "BO_FREE")


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_a_thousand_cycles_of_each_errno(code: int) -> None:
    """At every call in turn."""
    kernel = CountingKernel(IdleKernel())
    found = counts(kernel, short)
    calls = [call for call in CALLS if found[call]]
    assert len(calls) == len(CALLS) - 1
    for cycle in range(CYCLES):
        fails(kernel, short, calls[cycle % len(calls)], code, 0)


@pytest.mark.parametrize("call", ["nodes", "open", "VERSION"])
def test_looking_for_engines(call: str) -> None:
    """A node that cannot be looked at is no engine; where there is no other, its own error says why."""
    for code in ERRORS:
        kernel = CountingKernel(IdleKernel())
        kernel.fail(call, code)
        if ERRORS[code] is None:
            with opened(kernel, 0):
                pass
        else:
            with pytest.raises(DeviceUnavailable):
                opened(kernel, 0)
        assert kernel.held == (0, 0, 0)


def test_other_drivers_and_other_numbers() -> None:
    kernel = CountingKernel(IdleKernel("rocket"))
    with pytest.raises(DeviceUnavailable, match="belongs to the driver 'rocket', not 'ane'"):
        opened(kernel, 0)
    assert kernel.held == (0, 0, 0)
    with pytest.raises(DeviceUnavailable, match="no linux:1; engines that can be used here: 1"):
        opened(CountingKernel(IdleKernel()), 1)
    prefixed = CountingKernel(IdleKernel("ane2"))
    with pytest.raises(DeviceUnavailable, match="'ane2'"):
        opened(prefixed, 0)


def test_a_failed_run_can_be_repeated() -> None:
    kernel = CountingKernel(IdleKernel())
    with LinuxDevice(kernel, NAME, "linux:0") as device, device.load(PROGRAM) as executable:
        for code in (errno.ETIMEDOUT, errno.EIO):
            kernel.fail("SUBMIT", code)
            with pytest.raises(SubmitFailed) as caught:
                executable.run({"x": X})
            assert (caught.value.domain, caught.value.code) == ("errno", code)
            del caught  # its traceback holds arrays
            executable.run({"x": X})
    assert kernel.held == (0, 0, 0)
