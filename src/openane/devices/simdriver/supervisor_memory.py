"""What is looked up about a watched thread: bytes of its memory, the file behind a descriptor, the name in a call."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from functools import cache

from openane.devices.simdriver.seccomp import PATHS, Call, Notification, signed

AT_CURRENT = -100


def require_access(thread: int) -> None:
    """OSError when the system does not let us read and write a thread's memory."""
    os.close(os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC))
    if _writer()(thread, None, 0, None, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def read(thread: int, address: int, size: int) -> bytes:
    """Up to `size` bytes at an address of a thread's memory; fewer where a mapping ends. OSError EFAULT without any,
    and when its memory is closed to us."""
    try:
        memory = os.open(f"/proc/{thread}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(memory, size, address)
        finally:
            os.close(memory)
    except (OSError, OverflowError):
        raise OSError(errno.EFAULT, f"{size} bytes at {address:#x} cannot be read") from None


def read_all(thread: int, address: int, size: int) -> bytearray:
    """Exactly `size` bytes. OSError EFAULT when not all can be read."""
    data = read(thread, address, size) if size else b""
    if len(data) != size:
        raise OSError(errno.EFAULT, f"{size} bytes at {address:#x} cannot be read")
    return bytearray(data)


class _Range(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@cache
def _writer() -> Callable[..., int]:
    """The C library's process_vm_writev."""
    call = ctypes.CDLL(None, use_errno=True).process_vm_writev
    pointer = ctypes.POINTER(_Range)
    call.argtypes = (ctypes.c_int, pointer, ctypes.c_ulong, pointer, ctypes.c_ulong, ctypes.c_ulong)
    call.restype = ctypes.c_ssize_t
    return call


def write_all(thread: int, address: int, data: bytes | bytearray) -> None:
    """Writes bytes into a thread's memory. OSError EFAULT when not all of it is mapped writable (a write through
    /proc/PID/mem would change read-only memory all the same, as a debugger does)."""
    if not data:
        return
    copy = ctypes.create_string_buffer(bytes(data), len(data))
    ours, theirs = _Range(ctypes.addressof(copy), len(data)), _Range(address, len(data))
    if _writer()(thread, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) != len(data):
        raise OSError(errno.EFAULT, f"{len(data)} bytes at {address:#x} cannot be written")


def process_of(thread: int) -> int:
    """The process a thread belongs to."""
    with open(f"/proc/{thread}/status", "rb") as status:
        for line in status:
            if line.startswith(b"Tgid:"):
                return int(line.split()[1])
    return thread


def inode_of(thread: int, descriptor: int) -> tuple[int, int] | None:
    """(device, inode) of the file behind a thread's descriptor, None when there is none."""
    try:
        found = os.stat(f"/proc/{thread}/fd/{descriptor}")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def name_of(call: Call, asked: Notification, word: bytes) -> str | None:
    """The path a call names, absolute and without `.` and `..`, if the name or the folder it starts from ends with
    `word` or one with a number; None otherwise. Symbolic links are not followed."""
    try:
        path = read(asked.thread, asked.arguments[call.path], PATHS).partition(b"\0")[0]
    except OSError:
        return None
    if word not in path:
        return None
    if not path.startswith(b"/"):
        folder = AT_CURRENT if call.folder is None else signed(asked.arguments[call.folder])
        link = f"/proc/{asked.thread}/" + ("cwd" if folder == AT_CURRENT else f"fd/{folder}")
        try:
            path = os.path.join(os.fsencode(os.readlink(link)), path)
        except OSError:
            return None
    return os.path.normpath(os.fsdecode(path)).replace("//", "/")
