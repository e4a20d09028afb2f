"""Files mapped into memory: their bytes are read when they are asked for, and take no memory that the system could not
have back."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import BinaryIO


def map_file(path: Path) -> memoryview:
    """The bytes of a file, to be read. They stay when the file is removed or replaced. What is no regular file (a pipe)
    is read. OSError when it cannot be mapped."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return memoryview(file.read())
        size = status.st_size
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")  # not of 0 bytes


def map_part(file: BinaryIO, offset: int, size: int) -> memoryview | None:
    """`size` bytes of an open file, to be read while it is as long as it is; None where that cannot be mapped."""
    before = offset % mmap.ALLOCATIONGRANULARITY
    try:
        if not size or os.fstat(file.fileno()).st_size < offset + size:
            return None
        whole = mmap.mmap(file.fileno(), before + size, offset=offset - before, access=mmap.ACCESS_READ)
    except (OSError, ValueError):  # what is in memory has no number, and a pipe no pages
        return None
    return memoryview(whole)[before:]


def let_go(data: bytes | memoryview) -> None:
    """Gives the memory of mapped bytes back until they are read again; bytes that are not mapped are left alone."""
    held = data.obj if isinstance(data, memoryview) else None
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)
