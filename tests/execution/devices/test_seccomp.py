"""The filter of the supervisor, run by a small interpreter of filters, for every machine it knows."""

from __future__ import annotations

import json
import os
import platform
import socket
import struct
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.devices.simdriver import seccomp, supervisor_child
from openane.devices.simdriver.seccomp import MACHINES, argument_size, signed, this_machine
from openane.errors import DeviceUnavailable

ALLOW, NOTIFY = 0x7FFF0000, 0x7FC00000
EMPTY_PATH = 0x1000
NAMES = {  # from the kernel's tables
    "x86_64": {"open": 2, "stat": 4, "lstat": 6, "ioctl": 16, "access": 21, "openat": 257, "newfstatat": 262,
               "faccessat": 269, "statx": 332, "openat2": 437, "faccessat2": 439},
    "aarch64": {"ioctl": 29, "faccessat": 48, "openat": 56, "newfstatat": 79, "statx": 291, "openat2": 437,
                "faccessat2": 439},
}
FLAGS = {"newfstatat": 3, "statx": 2, "faccessat2": 3}
WORDS = st.integers(0, (1 << 64) - 1)


def decide(program: bytes, machine: int, number: int, arguments: list[int]) -> int:
    """What a filter answers for a call; it must end within its length, as every jump leads forward."""
    data = struct.pack("<iIQ6Q", number, machine, 0, *arguments)
    steps = list(struct.iter_unpack("<HBBI", program))
    assert 0 < len(steps) <= 4096
    held = at = 0
    while True:
        code, equal, unequal, value = steps[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            assert value % 4 == 0
            held = struct.unpack_from("<I", data, value)[0]
        elif code == 0x54:
            held &= value
        else:
            assert code in (0x15, 0x45)
            at += equal if (held == value if code == 0x15 else held & value) else unequal


@pytest.mark.parametrize("name", sorted(MACHINES))
@settings(max_examples=40, deadline=None)
@given(number=st.integers(0, 600), words=st.binary(min_size=48, max_size=48), drm=st.booleans())
def test_the_filter_tells_of_paths_and_requests_of_drm_drivers(name: str, number: int, words: bytes,
                                                               drm: bool) -> None:
    arguments = list(struct.unpack("<6Q", words))
    machine, known = MACHINES[name], {number: call for call, number in NAMES[name].items()}
    assert machine.calls.keys() == known.keys()
    for asked in (number, *known):
        call = known.get(asked, "")
        if call == "ioctl" and drm:
            arguments[1] = arguments[1] & ~0xFF00 | ord("d") << 8
        told = call and not (call == "ioctl" and arguments[1] >> 8 & 0xFF != ord("d"))
        told = told and not (call in FLAGS and arguments[FLAGS[call]] & EMPTY_PATH)
        assert decide(machine.program, machine.audit, asked, arguments) == (NOTIFY if told else ALLOW)
        assert decide(machine.program, 0x40000003, asked, arguments) == ALLOW


@given(WORDS)
def test_arguments_are_read_as_the_kernel_reads_them(word: int) -> None:
    assert signed(word) == struct.unpack("<i", struct.pack("<Q", word)[:4])[0]
    assert 0 <= argument_size(word) < 1 << 14
    assert argument_size(0xC0986443) == 152


@pytest.mark.parametrize(("system", "machine", "text"), [
    ("linux", "riscv64", r"the system calls of a riscv64 are not known here \(those of x86_64, aarch64 are\)"),
    ("darwin", "arm64", "on Linux only, and this is darwin")])
def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, text: str) -> None:
    monkeypatch.setattr(seccomp, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(DeviceUnavailable, match=text):
        this_machine()


@pytest.mark.parametrize(("message", "text"), [
    (json.dumps(1), "a policy of this container"), (json.dumps(16), "already runs under a supervisor"),
    (json.dumps(38), "has no seccomp filters"), (json.dumps(22), "no seccomp user notification"),
    (json.dumps(11), "the filter was not installed")])
def test_why_a_filter_cannot_be_installed(message: str, text: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(message.encode() + b"\n")
        with pytest.raises(DeviceUnavailable, match=text) as refused:
            supervisor_child._listener(ours, os.getpid())
    assert "'linux?driver=simulated'" in str(refused.value)


def test_a_kernel_that_cannot_hand_descriptors_over_is_refused() -> None:
    read, write = os.pipe()
    os.close(write)
    with pytest.raises(DeviceUnavailable, match=r"Linux 5\.9"):
        seccomp.Listener(read)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(read)
