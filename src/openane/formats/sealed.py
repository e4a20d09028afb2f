"""Folders of files that are known by their digests.

One file of such a folder is its seal. Its first line is the SHA-256, in hexadecimal, of the JSON that follows, which
has under `files` the length and the SHA-256 of every other file, and whatever else its writer says. So the first line
is a digest of the whole folder, and a byte that changed anywhere is noticed, and said of which file it is.

A digest is no signature: who can write all files can write another seal. Who knows the digest from elsewhere compares
it.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO, Any

from openane.errors import FormatError
from openane.record_classes import dataclass

SEAL = "seal.json"
LARGEST_SEAL = 1 << 24
DIGITS = 64
"""Of a SHA-256 in hexadecimal."""
REMEMBERED = 4096
"""Files whose digests a process remembers."""
CHANGES = "it changes while it is read"
SETTLED = 2_000_000_000
"""Nanoseconds after which a file that changes has another time: what changed later is not remembered."""


class AbsentFile(FormatError):
    """A file that a sealed folder does not have, which may be right."""


@dataclass(frozen=True, slots=True)
class Seal:
    """What a seal states: length and SHA-256 of files by their paths, and all of its JSON. `digest` is its own."""

    digest: str
    files: Mapping[str, tuple[int, str]]
    document: Mapping[str, Any]


def written_seal(files: Mapping[str, bytes | memoryview], **said: object) -> bytes:
    """The seal of files, given by their paths, that says `said` as well."""
    stated = {name: [len(data), sha256(data).hexdigest()] for name, data in files.items()}
    text = json.dumps({**said, "files": stated}).encode()
    return sha256(text).hexdigest().encode() + b"\n" + text


def read_seal(path: Path) -> Seal:
    """The seal in a file. FormatError when it was changed or is malformed, OSError when it cannot be read."""
    with _regular(path) as (handle, _):
        data = handle.read(LARGEST_SEAL + 1)
    first, _, text = data.partition(b"\n")
    digest = sha256(text).hexdigest()
    if len(data) > LARGEST_SEAL or first.decode(errors="replace") != digest:
        raise FormatError(f"{path} was changed: its first line is the SHA-256 of what follows",
                          expected=first[:DIGITS].decode(errors="replace"), found=digest)
    try:
        document = json.loads(text)
        files = {_within(name): (int(size), str(stated)) for name, (size, stated) in document["files"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"{path} is malformed: {type(error).__name__} {error}") from None
    return Seal(digest, files, document)


class SealedFolder:
    """A folder with a seal, which is read now; files are read when they are asked for, and only as the seal has them.

    FormatError when the seal was changed, OSError when it cannot be read."""

    def __init__(self, folder: Path, record: str = SEAL) -> None:
        """`record`: what the seal is called."""
        self.folder, self.seal = folder, read_seal(folder / record)

    def read(self, name: str) -> memoryview:
        """The bytes of a file, mapped: they take no memory that the system could not have back, and stay when the file
        is removed or replaced. FormatError when they are not those that were sealed, AbsentFile when none were, OSError
        when they cannot be read."""
        path = self.folder / name
        stated = self.seal.files.get(name)
        if stated is None:
            raise AbsentFile(f"{path} is missing: the seal has no such file")
        with _regular(path) as (handle, identity):
            if identity.size != stated[0]:
                raise FormatError(f"{path} was changed", expected=f"{stated[0]} bytes", found=identity.size)
            found = _digest(path, identity) if identity.settled else _digest.__wrapped__(path, identity)
            if found != stated[1]:
                raise FormatError(f"{path} was changed", expected=f"SHA-256 {stated[1]}", found=found)
            return memoryview(_mapped(handle, identity.size))

    def check(self) -> None:
        """FormatError for the first file that is not as it was sealed, OSError for one that cannot be read."""
        for name in self.seal.files:
            self.read(name)


@dataclass(frozen=True, slots=True)
class _Identity:
    """What tells a file, and a change of it, from others."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @property
    def settled(self) -> bool:
        """Whether another change would give another identity."""
        return time.time_ns() - self.changed > SETTLED


@contextmanager
def _regular(path: Path) -> Iterator[tuple[IO[bytes], _Identity]]:
    """A file open for reading, and which it is. OSError for anything that is no regular file."""
    def at_once(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)  # a pipe would be waited for

    with open(path, "rb", opener=at_once) as handle:
        status = os.fstat(handle.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "it is no regular file", str(path))
        yield handle, _Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(REMEMBERED)
def _digest(path: Path, identity: _Identity) -> str:
    """The SHA-256 of the file `path`, which is the one of that identity. It is remembered, so that a process hashes a
    file once. OSError when it is another by now."""
    with _regular(path) as (handle, found):
        if found != identity:
            raise OSError(0, CHANGES, str(path))
        return sha256(_mapped(handle, identity.size)).hexdigest()


def _mapped(handle: IO[bytes], size: int) -> mmap.mmap | bytes:
    """The first bytes of a file. OSError when it has fewer."""
    try:
        return mmap.mmap(handle.fileno(), size, access=mmap.ACCESS_READ) if size else b""  # of none nothing is mapped
    except ValueError:
        raise OSError(0, CHANGES, handle.name) from None


def _within(name: str) -> str:
    """A path within the folder. ValueError for any other."""
    path = PurePosixPath(os.fsdecode(os.fsencode(name)))
    if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
        raise ValueError(f"{name!r} is no path within the folder")
    return name
