"""Files read whole, after a look at their size: what does not fit into memory is refused before it is read."""

from __future__ import annotations

import os
from pathlib import Path

from openane.errors import FormatError, UnsupportedError


def read_file(path: Path, what: str = "file", limit: int | None = None) -> bytes:
    """The bytes of a file. FormatError when it cannot be read or is larger than `limit`, UnsupportedError when it is
    larger than this machine's memory."""
    try:
        size = path.stat().st_size
        if limit is not None and size > limit:
            raise FormatError(f"{what} {path.name!r} is too large", expected=f"at most {limit} bytes", found=size)
        if size > memory():
            raise UnsupportedError(str(path), "models are read into memory", limit=f"{memory()} bytes",
                                   found=f"{size} bytes", remedy="use a machine with more memory, or smaller weights")
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"{what} {path.name!r} cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise UnsupportedError(str(path), "models are read into memory, and there is not enough of it",
                               remedy="use a machine with more memory, or smaller weights") from None


def memory() -> int:
    """Bytes of memory this machine has; a large number where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1 << 40
