"""Linux seccomp user notification: a filter that hands chosen system calls of a process to another process to answer.

Structures, request numbers and flags are those of <linux/seccomp.h>, <linux/filter.h> and <linux/audit.h>, system call
numbers those of the kernel's tables for each machine; all little-endian. Needed are Linux 5.9 (a descriptor can be put
into the watched process) and no privilege: the filter is installed by the process itself, which first gives up gaining
any (no_new_privs).
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import struct
import sys
from contextlib import suppress
from dataclasses import field
from functools import cached_property

from openane.errors import DeviceUnavailable
from openane.record_classes import dataclass

ALTERNATIVES = ("our own programs reach the same driver without it: 'linux?driver=simulated' in one process, "
                "'ane simdriver --listen PATH' and 'linux?driver=PATH' for several")

LISTENER, KILLABLE = 0x08, 0x20
"""SECCOMP_FILTER_FLAG_NEW_LISTENER, and SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (Linux 5.19): once a call is being
answered, only a deadly signal interrupts it. Without the latter a handled signal may make a program submit twice."""

_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _AND, _RETURN, _IF_EQUAL, _IF_SET = 0x20, 0x54, 0x06, 0x15, 0x45
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16

_RECEIVE, _SEND, _VALID, _ADD, _FLAGS = 0xC050_2100, 0xC018_2101, 0x4008_2102, 0x4018_2103, 0x4008_2104
_CONTINUE, _ADD_AND_SEND, _WAKE_HERE = 1, 2, 1
_NOTIFICATION, _RESPONSE, _ADDITION = "<QIIiIQ6Q", "<QqiI", "<QIIII"

PATHS = 4096
"""Bytes a path may have, its final zero included (PATH_MAX)."""


@dataclass(frozen=True)
class Call:
    """A system call to be told of: what it is, and which arguments are its path, its folder and its flags.

    A call whose argument `flags` has a bit of `unless` is left alone. `answer` is the argument that points to memory
    for the answer of a question about a file, which has `size` bytes.
    """

    name: str
    path: int = 0
    folder: int | None = None
    flags: int | None = None
    unless: int = 0
    answer: int | None = None
    size: int = 0


_EMPTY_PATH = 0x1000
_BY_NUMBER = {
    "openat": Call("open", path=1, folder=0, flags=2),
    "openat2": Call("openat2", path=1, folder=0),
    "ioctl": Call("ioctl"),
    "faccessat": Call("ask", path=1, folder=0),
    "faccessat2": Call("ask", path=1, folder=0, flags=3, unless=_EMPTY_PATH),
    "statx": Call("ask", path=1, folder=0, flags=2, unless=_EMPTY_PATH, answer=4, size=256),
}


@dataclass(frozen=True)
class MachineNumbers:
    """Numbers of one kind of machine: its name in a filter, its `seccomp` call, the calls to be told of."""

    audit: int
    seccomp: int
    calls: dict[int, Call] = field(default_factory=dict)

    @cached_property
    def program(self) -> bytes:
        """The filter: every call of `calls` is told of, of ioctl those of the type of DRM drivers; all others, and
        those of another machine's programs, run as they are."""
        program = [_step(_LOAD, _MACHINE), _step(_IF_EQUAL, self.audit, equal=1), _step(_RETURN, _ALLOW),
                   _step(_LOAD, _NUMBER)]
        for number, call in self.calls.items():
            block = _block(call)
            program += [_step(_IF_EQUAL, number, unequal=len(block)), *block]
        return b"".join([*program, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, *, equal: int = 0, unequal: int = 0) -> bytes:
    return struct.pack("<HBBI", code, equal, unequal, value)


def _block(call: Call) -> list[bytes]:
    """What is done about one call, the end of the filter included."""
    notify, allow = _step(_RETURN, _NOTIFY), _step(_RETURN, _ALLOW)
    if call.name == "ioctl":
        return [_step(_LOAD, _ARGUMENTS + 8), _step(_AND, 0xFF00), _step(_IF_EQUAL, ord("d") << 8, unequal=1),
                notify, allow]
    if call.flags is None or not call.unless:
        return [notify]
    return [_step(_LOAD, _ARGUMENTS + 8 * call.flags), _step(_IF_SET, call.unless, unequal=1), allow, notify]


MACHINES = {
    "x86_64": MachineNumbers(0xC000_003E, 317, {
        2: Call("open", path=0, flags=1), 257: _BY_NUMBER["openat"], 437: _BY_NUMBER["openat2"],
        16: _BY_NUMBER["ioctl"],
        21: Call("ask", path=0), 269: _BY_NUMBER["faccessat"], 439: _BY_NUMBER["faccessat2"],
        4: Call("ask", path=0, answer=1, size=144), 6: Call("ask", path=0, answer=1, size=144),
        262: Call("ask", path=1, folder=0, flags=3, unless=_EMPTY_PATH, answer=2, size=144),
        332: _BY_NUMBER["statx"]}),
    "aarch64": MachineNumbers(0xC000_00B7, 277, {
        56: _BY_NUMBER["openat"], 437: _BY_NUMBER["openat2"], 29: _BY_NUMBER["ioctl"],
        48: _BY_NUMBER["faccessat"], 439: _BY_NUMBER["faccessat2"],
        79: Call("ask", path=1, folder=0, flags=3, unless=_EMPTY_PATH, answer=2, size=128),
        291: _BY_NUMBER["statx"]}),
}


def this_machine() -> MachineNumbers:
    """The numbers of the machine we run on. DeviceUnavailable where there is no such interface or none known."""
    if sys.platform != "linux":
        raise DeviceUnavailable(f"programs can be watched on Linux only, and this is {sys.platform}", ALTERNATIVES)
    name = platform.machine()
    if name not in MACHINES:
        raise DeviceUnavailable(f"the system calls of a {name} are not known here (those of {', '.join(MACHINES)} are)",
                                ALTERNATIVES)
    return MACHINES[name]


@dataclass(frozen=True, slots=True)
class Notification:
    """A system call that waits for an answer: its identifier, the thread that made it, number and arguments."""

    identifier: int
    thread: int
    number: int
    arguments: tuple[int, ...]


class Listener:
    """The descriptor of a filter's notifications. Methods raise no error when the waiting thread has died."""

    def __init__(self, descriptor: int) -> None:
        """Takes over `descriptor`. DeviceUnavailable when the kernel cannot put descriptors into a process."""
        self._descriptor = descriptor
        self._atomic = self._can_add(_ADD_AND_SEND)
        if not self._atomic and not self._can_add(0):
            os.close(descriptor)
            raise DeviceUnavailable("this kernel cannot put a file into a watched process (Linux 5.9 can)",
                                    ALTERNATIVES)
        with suppress(OSError):  # from Linux 6.6 on, the answerer runs on the core of the asker
            fcntl.ioctl(descriptor, _FLAGS, _WAKE_HERE)

    def fileno(self) -> int:
        """For `select.poll`: readable when a call waits, hung up when no process with the filter is left."""
        return self._descriptor

    def close(self) -> None:
        """Ends the service: calls of processes that still have the filter fail with ENOSYS."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def receive(self) -> Notification | None:
        """The next call that waits, or None when its thread has died meanwhile."""
        buffer = bytearray(struct.calcsize(_NOTIFICATION))
        try:
            self._request(_RECEIVE, buffer)
        except FileNotFoundError:
            return None
        identifier, thread, _, number, _, _, *arguments = struct.unpack(_NOTIFICATION, buffer)
        return Notification(identifier, thread, number, tuple(arguments))

    def waits(self, call: Notification) -> bool:
        """Whether the thread still waits; if so, what was read from its memory before is indeed its own."""
        try:
            self._request(_VALID, bytearray(struct.pack("<Q", call.identifier)))
        except FileNotFoundError:
            return False
        return True

    def proceed(self, call: Notification) -> None:
        """Lets the kernel run the call as if nobody had watched."""
        self._send(call, 0, 0, _CONTINUE)

    def answer(self, call: Notification, value: int = 0) -> None:
        """The call returns `value`."""
        self._send(call, value, 0, 0)

    def refuse(self, call: Notification, code: int) -> None:
        """The call fails with an errno."""
        self._send(call, 0, -code, 0)

    def hand_over(self, call: Notification, descriptor: int, flags: int) -> bool:
        """The call returns a new descriptor of the caller's for the same open file as `descriptor`; `flags` is 0 or
        O_CLOEXEC. False when the caller has died; OSError when it can have no more descriptors."""
        how = _ADD_AND_SEND if self._atomic else 0
        try:
            number = self._add(call.identifier, how, descriptor, flags)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINPROGRESS):
                raise
            return False
        if not self._atomic:
            self._send(call, number, 0, 0)
        return True

    def _send(self, call: Notification, value: int, error: int, flags: int) -> None:
        with suppress(FileNotFoundError):  # the thread has died
            self._request(_SEND, bytearray(struct.pack(_RESPONSE, call.identifier, value, error, flags)))

    def _add(self, identifier: int, how: int, descriptor: int, flags: int) -> int:
        return self._request(_ADD, bytearray(struct.pack(_ADDITION, identifier, how, descriptor, 0, flags)))

    def _request(self, number: int, argument: bytearray) -> int:
        """One request to the kernel; these may be interrupted by a signal, and are then made again."""
        while True:
            try:
                return int(fcntl.ioctl(self._descriptor, number, argument, True))
            except InterruptedError:
                continue

    def _can_add(self, how: int) -> bool:
        """Whether the kernel knows the request: it then looks for the call, of which there is none."""
        try:
            self._add(0, how, self._descriptor, 0)
        except OSError as error:
            return error.errno == errno.ENOENT
        return True


def unsigned(argument: int) -> int:
    """An `unsigned int` argument: the upper half of its register means nothing."""
    return argument & 0xFFFF_FFFF


def signed(argument: int) -> int:
    """An `int` argument."""
    low = unsigned(argument)
    return low - (1 << 32) if low >> 31 else low


def argument_size(request: int) -> int:
    """Bytes of the structure a request number speaks of."""
    return request >> 16 & 0x3FFF
