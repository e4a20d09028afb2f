"""Files mapped into memory: their bytes are read when they are asked for, and take no memory that the system could not
have back."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path


def map_file(path: Path) -> memoryview:
    """The bytes of a file, to be read. They stay when the file is removed or replaced. What is no regular file (a pipe)
    is read. OSError when it cannot be mapped."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return memoryview(file.read())
        size = status.st_size
        return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")  # not of 0 bytes


def let_go(data: bytes | memoryview) -> None:
    """Gives the memory of mapped bytes back until they are read again; bytes that are not mapped are left alone."""
    held = data.obj if isinstance(data, memoryview) else None
    if isinstance(held, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        held.madvise(mmap.MADV_DONTNEED)
