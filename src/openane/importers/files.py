"""Files read after a look at their size: what does not fit into memory is refused before it is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO

from openane.errors import FormatError, UnsupportedError


def read_file(path: Path, what: str = "file", limit: int | None = None) -> bytes:
    """The bytes of a file. FormatError when it cannot be read or is larger than `limit`, UnsupportedError when it is
    larger than this machine's memory."""
    with open_file(path, what, limit) as (stream, _):
        return stream.read()


@contextmanager
def open_file(path: Path, what: str = "file", limit: int | None = None) -> Iterator[tuple[BinaryIO, int]]:
    """A file open for reading and its size in bytes. Errors as of `read_file`, those of reading it inside included."""
    try:
        with _opened(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if limit is not None and size > limit:
                raise FormatError(f"{what} {path.name!r} is too large", expected=f"at most {limit} bytes", found=size)
            if size > memory():
                raise UnsupportedError(str(path), "models are read into memory", limit=f"{memory()} bytes",
                                       found=f"{size} bytes",
                                       remedy="use a machine with more memory, or smaller weights")
            yield stream, size
    except OSError as error:
        raise FormatError(f"{what} {path.name!r} cannot be read: {error.strerror or error}") from None
    except MemoryError:
        raise UnsupportedError(str(path), "models are read into memory, and there is not enough of it",
                               remedy="use a machine with more memory, or smaller weights") from None


def _opened(path: Path) -> BinaryIO:
    """A file that another file may have named. OSError where no file can have that name."""
    try:
        return path.open("rb")
    except ValueError as error:  # a name with a null character, or with what is no character
        raise OSError(0, f"no file has such a name: {error}") from None


def is_there(path: Path) -> bool:
    """Whether there is a file by a name that another file states, which may be one that no system takes."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


@contextmanager
def mapped(stream: BinaryIO, size: int) -> Iterator[memoryview]:
    """The `size` bytes of an open file without reading them: what is looked at is brought from the file. Views of
    them must be given up inside."""
    if not size:
        yield memoryview(b"")
        return
    try:
        pages = mmap(stream.fileno(), size, access=ACCESS_READ)
    except ValueError:
        raise FormatError("the file became shorter while it was read", expected=f"{size} bytes",
                          found="fewer") from None
    with pages, memoryview(pages) as view:
        yield view


def memory() -> int:
    """Bytes of memory this machine has; a large number where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1 << 40
