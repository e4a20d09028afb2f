"""The driver's structures and numbers, the meaning of every errno, and the names of its devices."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from openane.chips import get_chip
from openane.devices.linux import interface
from openane.devices.linux.commands import bootstrap
from openane.devices.linux.failures import REASONS, failure
from openane.devices.linux.interface import BufferFree, BufferInit, Structure, Submit, Version
from openane.errors import BudgetExhausted, DeviceError, DeviceHung, DeviceRejected, DeviceUnavailable, SubmitFailed
from openane.formats.tasks import command_bytes
from openane.program import Program, Task

READ_WRITE, FIRST_OF_DRIVERS = 3, 0x40


@pytest.mark.parametrize(("structure", "number", "command", "size"), [
    (Version, interface.DRM_VERSION, 0, 64), (BufferInit, interface.BO_INIT, FIRST_OF_DRIVERS + 1, 24),
    (BufferFree, interface.BO_FREE, FIRST_OF_DRIVERS + 2, 8), (Submit, interface.SUBMIT, FIRST_OF_DRIVERS + 3, 152)])
def test_sizes_and_request_numbers(structure: type[Structure], number: int, command: int, size: int) -> None:
    """A request number is direction, size, type and command, as Linux's _IOWR puts them together."""
    assert structure.length() == len(structure().pack()) == size
    assert number == READ_WRITE << 30 | size << 16 | ord("d") << 8 | command


def test_fields_lie_where_the_driver_reads_them() -> None:
    assert BufferInit(1, 2, 3, 4).pack().hex() == "01000000" "02000000" "0300000000000000" "0400000000000000"
    assert BufferFree(5, 6).pack().hex() == "05000000" "06000000"
    packed = Submit(0x10, 2, 3, tuple(range(100, 132)), 4, 5).pack()
    assert packed[:16].hex() == "1000000000000000" "02000000" "03000000"
    assert [packed[16 + 4 * slot] for slot in range(32)] == list(range(100, 132))
    assert packed[144:].hex() == "04000000" "05000000"
    version = Version(name_length=7, name=8, date_length=9, date=10, description_length=11, description=12).pack()
    assert [int.from_bytes(version[at:at + 8], "little") for at in range(16, 64, 8)] == [7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("structure", [
    Version(1, 2, 3, 4, 5, 6, 7, 8, 9), BufferInit(1, 0, 1 << 40, 1 << 50), BufferFree(0xFFFF_FFFF),
    Submit(1 << 33, 2, 3, tuple(range(32)), 4)])
def test_structures_round_trip(structure: Structure) -> None:
    assert type(structure).unpack(structure.pack()) == structure


@pytest.mark.parametrize("request_name", ["open", "VERSION", "BO_INIT", "mmap", "SUBMIT", "BO_FREE"])
def test_every_errno_has_its_error(request_name: str) -> None:
    kinds = {errno.EINVAL: DeviceRejected, errno.ETIMEDOUT: DeviceHung, errno.ENOMEM: BudgetExhausted,
             errno.ENOSPC: BudgetExhausted, errno.ENODEV: DeviceUnavailable, errno.ENOENT: DeviceUnavailable,
             errno.ENXIO: DeviceUnavailable, errno.EACCES: DeviceUnavailable, errno.EPERM: DeviceUnavailable}
    for code in errno.errorcode:
        found = failure(request_name, OSError(code, ""), 5)
        assert type(found) is kinds.get(code, SubmitFailed), errno.errorcode[code]
        assert request_name in str(found)
        if isinstance(found, SubmitFailed):
            assert (found.domain, found.code) == ("errno", code)
        if isinstance(found, DeviceUnavailable):
            assert found.remedy
    assert failure(request_name, OSError("lost")).args  # an error without a number


def test_reasons_come_from_the_driver_or_from_its_source() -> None:
    known = failure("SUBMIT", OSError(errno.EINVAL, "Invalid argument"))
    assert isinstance(known, DeviceRejected)
    assert known.reasons == REASONS["SUBMIT"]
    told = failure("SUBMIT", OSError(errno.EINVAL, "pad must be 0"))
    assert isinstance(told, DeviceRejected)
    assert told.reasons == ("pad must be 0",)


def test_the_bootstrap_is_the_first_task_with_the_drivers_network_identifier() -> None:
    from support.verifier_programs import surface

    from openane.engine import Elementwise

    chip = get_chip("h13")
    x = surface(4, (1, 2, 1, 3, 4))
    emitted = chip.emit([Elementwise(first=x, result=replace(x, slot=5), absolute=True)] * 2, "compat")
    program = Program("h13", tuple(Task(task.words, task.offset) for task in emitted), bytes(range(32)))
    first = bootstrap(program)
    words = tuple(int.from_bytes(first[at:at + 4], "little") for at in range(0, len(first), 4))
    before, after = chip.decode(program.tasks[0].words), chip.decode(words)
    assert after.values == {**before.values, "Header.Task.NID": 0x40}
    assert (after.rest, after.records) == (before.rest, before.records)
    commands, text = command_bytes(program), program.text()
    assert commands[:len(text)] == text
    assert commands[-(-len(text) // 16) * 16:] == bytes(range(32))


def test_names() -> None:
    from openane.devices import open_device

    for name, text in (("linux:first", "called linux:0, linux:1"), ("linux:-1", "called linux:0"),
                       ("linux?speed=1", "no option 'speed'; it has driver, timeout"),
                       ("linux?arithmetic=exact", "arithmetic= belongs to the simulated driver"),
                       ("linux?driver=simulated&mode=loose", "there are strict, faithful"),
                       ("linux?driver=simulated&arithmetic=double", "there are exact, fast, auto"),
                       ("linux:1?driver=simulated", "has one engine"),
                       ("linux?driver=", "must be simulated or the path of a socket"),
                       ("linux?timeout=0", "a number of seconds above 0")):
        with pytest.raises(DeviceError, match=text):
            open_device(name)
