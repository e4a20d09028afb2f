"""System calls on memory that Python does not offer: mapping at a given address, punching holes, comparing.

They are the C library's, called through ctypes. Addresses are integers; every range is checked by the callers.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from functools import lru_cache

import numpy as np

PAGE = mmap.PAGESIZE
PROT_NONE, MAP_FIXED, MAP_NORESERVE, MAP_FAILED = 0, 0x10, 0x4000, ctypes.c_void_p(-1).value
KEEP_SIZE_AND_PUNCH_HOLE = 3
RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    """The C library with the prototypes of what is called. OSError ENOSYS where it lacks one of them."""
    library = ctypes.CDLL(None, use_errno=True)
    pointer, size, integer, offset = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
    try:
        library.mmap.argtypes, library.mmap.restype = (pointer, size, integer, integer, integer, offset), pointer
        library.munmap.argtypes = (pointer, size)
        library.fallocate.argtypes = (integer, integer, offset, offset)
        library.memcmp.argtypes = (pointer, pointer, size)
    except AttributeError as missing:
        raise OSError(errno.ENOSYS, f"the C library has no such function: {missing}") from None
    return library


def reserve(size: int) -> int:
    """Address of `size` bytes of address space without memory. OSError ENOMEM when there is none."""
    return _map(None, size, PROT_NONE, RESERVED, -1, 0)


def map_file(address: int, size: int, fd: int, offset: int) -> None:
    """Puts bytes of a file at an address of a reservation, shared, readable and writable."""
    _map(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, fd, offset)


def unmap_file(address: int, size: int) -> None:
    """Makes a part of a reservation inaccessible again."""
    _map(address, size, PROT_NONE, RESERVED | MAP_FIXED, -1, 0)


def release(address: int, size: int) -> None:
    """Gives a reservation back with all that is mapped in it."""
    _library().munmap(address, size)


def punch(fd: int, offset: int, size: int) -> None:
    """Gives the memory of a part of a file back; it reads as zeros, through every mapping."""
    if _library().fallocate(fd, KEEP_SIZE_AND_PUNCH_HOLE, offset, size):
        _fail("fallocate")


def same(first: int, second: int, size: int) -> bool:
    """Whether `size` bytes at two addresses are equal."""
    return bool(_library().memcmp(first, second, size) == 0)


def touched(fd: int, low: int, high: int) -> int | None:
    """Offset of the first page in [low, high) of a memory file that anybody has touched, None when nobody has."""
    try:
        found = os.lseek(fd, low, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole up to the end
            return None
        raise
    return found if found < high else None


def mappings(process: int, inode: int) -> list[tuple[int, int, int]]:
    """(address, offset, bytes) of every mapping a process has of the file with this inode; none when they cannot be
    read."""
    try:
        with open(f"/proc/{process}/maps") as lines:
            found = [line.split() for line in lines if f" {inode} " in line]
    except OSError:
        return []
    spans = [(*(int(text, 16) for text in span.split("-")), int(offset, 16)) for span, _, offset, *_ in found]
    return [(start, offset, end - start) for start, end, offset in spans]


def as_array(address: int, size: int) -> np.ndarray:
    """Bytes at an address as uint8. It does not keep them: nothing may use it once they are released."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _map(address: int | None, size: int, protection: int, flags: int, fd: int, offset: int) -> int:
    found = _library().mmap(address, size, protection, flags, fd, offset)
    if found is None or found == MAP_FAILED:
        _fail("mmap")
    return int(found)


def _fail(call: str) -> None:
    code = ctypes.get_errno()
    raise OSError(code, f"{call}: {os.strerror(code)}")
