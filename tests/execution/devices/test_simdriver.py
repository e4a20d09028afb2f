"""The simulated driver's requests: what it answers, every errno and when, failures on demand, what is left behind."""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from support.driver_client import LAYOUT, Client, access, addition, leftovers, program

from openane.devices.linux import interface
from openane.devices.linux.interface import BufferFree, BufferInit, Structure, Submit, Version
from openane.devices.simdriver import DriverError, DriverFile, ReportKind, SimDriver, SimKernel
from openane.devices.simdriver.driver import MODES, PAGE
from openane.devices.simdriver.injection import KINDS
from openane.errors import DeviceError

WINDOW = (interface.WINDOW_BASE, 64 * PAGE)


@pytest.fixture(params=MODES)
def driver(request: pytest.FixtureRequest) -> Iterator[SimDriver]:
    with SimDriver(request.param, window=WINDOW, memory=32 * PAGE) as opened:
        yield opened


def ask(driver: SimDriver, file: DriverFile, request: int, structure: Structure) -> bytearray:
    argument = structure.pack()
    driver.ioctl(file, request, argument)
    return argument


def fails(code: int, call: Callable[..., object], *arguments: object) -> DriverError:
    with pytest.raises(DriverError) as failed:
        call(*arguments)
    assert failed.value.errno == code, failed.value
    return failed.value


def init(driver: SimDriver, file: DriverFile, size: int) -> BufferInit:
    return BufferInit.unpack(ask(driver, file, interface.BO_INIT, BufferInit(size=size)))


def test_structures_and_numbers_agree() -> None:
    """A request's number holds its structure's size, its type and its place: facts about the driver's header."""
    for request, structure, place in ((interface.BO_INIT, BufferInit, 0x41), (interface.BO_FREE, BufferFree, 0x42),
                                      (interface.SUBMIT, Submit, 0x43), (interface.DRM_VERSION, Version, 0)):
        assert request == 3 << 30 | structure.length() << 16 | ord("d") << 8 | place
        assert structure.unpack(structure().pack()) == structure()


def test_buffer_objects_are_slices_of_the_files_memory(driver: SimDriver) -> None:
    file = driver.open(7)
    assert driver.file_of(os.fstat(file.memfd).st_ino) is file
    answers = [init(driver, file, size) for size in (1, PAGE, PAGE + 1)]
    assert [answer.handle for answer in answers] == [1, 2, 3]
    assert driver.used == 4 * PAGE
    for answer in answers:
        assert answer.offset % mmap.PAGESIZE == 0
        assert answer.offset > 0xFFFF_FFFF  # 32 bits do not hold it
        with mmap.mmap(file.memfd, PAGE, offset=answer.offset) as mapping:  # what any program does
            assert mapping[:] == (b"\x7f" if driver.strict else b"\0") * PAGE
            mapping[:1] = bytes([answer.handle])
    for answer in answers:
        assert os.pread(file.memfd, 1, answer.offset) == bytes([answer.handle])
    addresses = [file.handles[answer.handle].address for answer in answers]
    gap = PAGE if driver.strict else 0
    assert addresses == [interface.WINDOW_BASE + i * (PAGE + gap) for i in range(3)]
    with pytest.raises(PermissionError):
        os.ftruncate(file.memfd, 0)  # the engine's pages cannot be taken away


def test_version_has_the_lengths(driver: SimDriver) -> None:
    file = driver.open(7)
    answer = Version.unpack(ask(driver, file, interface.DRM_VERSION, Version()))
    assert (answer.name_length, answer.date_length, answer.description_length) == (3, 8, 26)
    assert tuple(map(len, driver.version)) == (3, 8, 26)
    assert driver.version[0] == interface.DRIVER


def test_requests_that_are_none(driver: SimDriver) -> None:
    file = driver.open(7)
    fails(errno.EINVAL, driver.ioctl, file, interface.SUBMIT + 1, bytearray(152))
    for request in (0x5401, 0, -1, 1 << 40):
        fails(errno.ENOTTY, driver.ioctl, file, request, bytearray(8))
    for request in interface.NAMES:
        fails(errno.EFAULT, driver.ioctl, file, request, bytearray(3))
    driver.close_file(file)
    driver.close_file(file)
    fails(errno.EBADF, driver.ioctl, file, interface.BO_FREE, BufferFree(1).pack())
    driver.close()
    fails(errno.ENODEV, driver.open, 7)


def test_memory_and_addresses_run_out(driver: SimDriver) -> None:
    file = driver.open(7)
    fails(errno.EINVAL, ask, driver, file, interface.BO_INIT, BufferInit(size=1, pad=1))
    for size, code in ((0, errno.ENOSPC), (33 * PAGE, errno.ENOMEM), ((1 << 64) - 1, errno.ENOMEM)):
        fails(code, init, driver, file, size)
    objects = [init(driver, file, 3 * PAGE).handle for _ in range(10)]
    fails(errno.ENOMEM, init, driver, file, 3 * PAGE)
    assert len(file.handles) == len(objects)
    for handle in objects:
        ask(driver, file, interface.BO_FREE, BufferFree(handle))
    assert driver.used == 0


def test_holes_are_filled_again() -> None:
    with SimDriver("faithful", window=(interface.WINDOW_BASE, 8 * PAGE)) as driver:
        file = driver.open(7)
        handles = [init(driver, file, PAGE).handle for _ in range(8)]
        fails(errno.ENOSPC, init, driver, file, 1)
        for handle in (handles[1], handles[4], handles[5]):
            ask(driver, file, interface.BO_FREE, BufferFree(handle))
        fails(errno.ENOSPC, init, driver, file, 3 * PAGE)
        single, double = init(driver, file, PAGE), init(driver, file, 2 * PAGE)
        assert (single.handle, double.handle) == (2, 5)  # the lowest free numbers
        assert [file.handles[h].address for h in (2, 5)] == [interface.WINDOW_BASE + n * PAGE for n in (1, 4)]


def test_what_finds_no_address_keeps_no_memory() -> None:
    with SimDriver("strict", window=(interface.WINDOW_BASE, 4 * PAGE)) as driver:
        file = driver.open(7)
        init(driver, file, PAGE)
        before = os.fstat(file.memfd).st_blocks
        assert before
        fails(errno.ENOSPC, init, driver, file, 3 * PAGE)
        assert os.fstat(file.memfd).st_blocks == before


def test_frees_that_are_refused(driver: SimDriver) -> None:
    file, other = driver.open(7), driver.open(8)
    handle = init(driver, file, 1).handle
    fails(errno.EINVAL, ask, driver, file, interface.BO_FREE, BufferFree(handle, pad=1))
    fails(errno.EINVAL, ask, driver, file, interface.BO_FREE, BufferFree(handle + 1))
    fails(errno.EINVAL, ask, driver, other, interface.BO_FREE, BufferFree(handle))  # handles are a file's own
    ask(driver, file, interface.BO_FREE, BufferFree(handle))
    fails(errno.EINVAL, ask, driver, file, interface.BO_FREE, BufferFree(handle))


def with_handle(request: Submit, channel: int, handle: int) -> Submit:
    handles = list(request.handles)
    handles[channel] = handle
    return replace(request, handles=tuple(handles))


SUBMISSIONS: dict[str, Callable[[Submit], Submit]] = {
    "pad": lambda r: replace(r, pad=1),
    "the tasks have 0 bytes": lambda r: replace(r, text_size=0),
    "0 tasks": lambda r: replace(r, task_count=0),
    "the first task has 0 bytes": lambda r: replace(r, first_task_size=0),
    "channel 0, the commands, has no handle": lambda r: with_handle(r, 0, 0),
    "channel 1, the constants, has a handle": lambda r: with_handle(r, 1, r.bootstrap),
    "the bootstrap has no handle": lambda r: replace(r, bootstrap=0),
    "handle 99 is no buffer object": lambda r: with_handle(r, 31, 99),
    "handle 98 is no buffer object": lambda r: replace(r, bootstrap=98),
    "must be fewer than the 16384": lambda r: replace(r, text_size=PAGE),
}


@pytest.mark.parametrize("text", SUBMISSIONS)
def test_submissions_that_are_refused(driver: SimDriver, text: str) -> None:
    client = Client(SimKernel(driver), program())
    request = SUBMISSIONS[text](client.request)
    error = fails(errno.EINVAL, client.submit, request)
    assert text in str(error)
    assert not driver.stuck
    client.submit()
    fails(errno.EINVAL, client.submit, request)  # also when a good one is remembered
    client.close()


def test_an_executable_result(driver: SimDriver) -> None:
    client = Client(SimKernel(driver), program())
    for factor in range(3):
        client.tensor("x")[...] = np.arange(384).reshape(4, 3, 32)
        client.tensor("state")[...] = factor
        client.submit()
        np.testing.assert_array_equal(client.tensor("y"), client.tensor("x") + factor)
    assert driver.submissions == 3
    client.close()
    assert (driver.used, driver.reports) == (0, ())


def life(kernel: SimKernel) -> int:
    """Every request once; how many failed with EIO."""
    try:
        client = Client(kernel, program())
    except OSError as failed:
        return int(failed.errno == errno.EIO)
    failures = 0
    for call in (lambda: kernel.ioctl(client.fd, interface.DRM_VERSION, Version().pack()), client.submit):
        try:
            call()
        except OSError as failed:
            failures += failed.errno == errno.EIO
    return failures + client.close_all()


@pytest.mark.parametrize("request_name", KINDS)
def test_every_request_fails_on_demand(driver: SimDriver, request_name: str) -> None:
    kernel = SimKernel(driver)
    before = leftovers()
    driver.inject(request_name, errno.EIO, after=2, times=2)
    failures = sum(life(kernel) for _ in range(6))
    assert failures == 2
    descriptors, mapped, threads = before
    assert leftovers() == (descriptors, mapped + len(driver.leaked), threads)  # not freed is lost in faithful mode
    with pytest.raises(DeviceError, match="no request is called"):
        driver.inject("IOCTL", errno.EIO)


def test_a_hang_on_demand(driver: SimDriver) -> None:
    client = Client(SimKernel(driver), program())
    client.submit()
    driver.inject(interface.SUBMIT, errno.ETIMEDOUT)
    fails(errno.ETIMEDOUT, client.submit)
    assert driver.stuck
    client.submit()
    assert not driver.stuck
    client.close()


def test_an_engine_that_stays_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    with SimDriver("faithful", window=WINDOW, recovers=False, hang_seconds=interface.TIMEOUT_SECONDS) as driver:
        client = Client(SimKernel(driver), program())
        client.submit()
        fails(errno.ETIMEDOUT, client.submit, replace(client.request, task_count=2))
        error = fails(errno.ETIMEDOUT, client.submit)
        assert [report.kind for report in error.reports] == [ReportKind.STUCK]  # type: ignore[union-attr]
        assert waited == [1, 1]
        client.close()


def test_mappings_are_checked(driver: SimDriver) -> None:
    kernel = SimKernel(driver)
    fd = kernel.open(kernel.nodes()[0])
    argument = BufferInit(size=1).pack()
    kernel.ioctl(fd, interface.BO_INIT, argument)
    offset = BufferInit.unpack(argument).offset
    for length, place in ((PAGE + 1, offset), (0, offset), (1, 0), (1, offset + mmap.PAGESIZE)):
        fails(errno.EINVAL, kernel.map, fd, length, place)
    kernel.map(fd, PAGE, offset).close()
    fails(errno.ENOENT, kernel.open, "/dev/null")
    kernel.close(fd)
    for call in (kernel.close, kernel.version):
        fails(errno.EBADF, call, fd)


def test_drivers_that_cannot_be() -> None:
    for arguments in ({"mode": "lenient"}, {"window": (0, 1)}, {"window": (0, 1 << 40)}, {"window": (-PAGE, PAGE)}):
        with pytest.raises(DeviceError):
            SimDriver(**arguments)  # type: ignore[arg-type]


def test_a_thousand_failing_clients_leave_nothing() -> None:
    wrong = program(addition(second=access(5, LAYOUT, 1 << 20)))
    for mode in MODES:
        with SimDriver(mode) as driver:
            kernel = SimKernel(driver)
            before = leftovers()
            for index in range(500):
                client = Client(kernel, wrong)
                fails(errno.EFAULT if driver.strict else errno.ETIMEDOUT, client.submit)
                fails(errno.EINVAL, client.submit, replace(client.request, task_count=0))
                client.close(frees=index % 5 == 0 or not driver.strict)
            assert leftovers() == before
            assert (driver.used, driver.files) == (0, ())


def test_a_thousand_drivers_leave_nothing() -> None:
    before = leftovers()
    for index in range(1000):
        with SimDriver(MODES[index % 2]) as driver:
            init(driver, driver.open(7), 1)
    assert leftovers() == before
