"""A folder of results that are expensive to make, found again by a key that says everything they depend on.

An entry is a folder of files. It is written elsewhere, brought to the disk and renamed, so that an entry is complete or
absent whoever is writing, is killed or runs out of space; it is sealed with the digests of its files
(`formats.sealed`), and dropped where they do not match when it is read. Entries are never changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from openane.errors import FormatError
from openane.formats.folders import remove_folder, write_folder
from openane.formats.sealed import DIGITS, SealedFolder, read_seal, written_seal
from openane.record_classes import dataclass

VARIABLE = "ANE_CACHE"
"""Environment variable with the cache's folder."""
RECORD = "entry.json"
SIZE_LIMIT = 8 << 30
"""Bytes the cache is pruned to when something is added."""
STALE = 3600.0
"""Seconds after which what a killed writer left is removed."""
DIGEST = DIGITS // 2
"""Bytes of a SHA-256, which processors have instructions for."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """An entry: key, what it is, bytes, and when it was last used (seconds since 1970)."""

    key: str
    label: str
    size: int
    used: float


def default_folder() -> Path:
    """$ANE_CACHE, else `openane` in $XDG_CACHE_HOME, else in `~/.cache`. OSError when there is no home."""
    stated = os.environ.get(VARIABLE)
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the specification: relative paths are ignored
        try:
            base = str(Path.home() / ".cache")
        except RuntimeError as error:
            raise OSError(f"no folder for the cache: {error}; set {VARIABLE}") from None
    return Path(base) / "openane"


class Cache:
    """The entries in one folder. Reading and writing never fail: where there is trouble, nothing is found or kept."""

    def __init__(self, folder: Path | None = None, limit: int = SIZE_LIMIT, durable: bool = True) -> None:
        """`folder` None is the default; `durable`: entries are to outlive a crash of the machine. OSError when there is
        no folder."""
        self.folder, self._limit, self._durable = folder or default_folder(), limit, durable

    def get(self, key: str) -> dict[str, bytes] | None:
        """The files of an entry, or None. A damaged entry is dropped."""
        files = self.mapped(key)
        return None if files is None else {name: bytes(data) for name, data in files.items()}

    def mapped(self, key: str) -> dict[str, memoryview] | None:
        """As `get`, the files mapped: they take no memory that the system could not have back. They stay readable when
        the entry is removed meanwhile."""
        place = self.folder / key
        try:
            folder = self._sealed(key)
            files = {name: folder.read(name) for name in folder.seal.files}
        except FileNotFoundError:
            if place.is_dir():
                self.drop(key)
            return None
        except OSError:
            return None
        except FormatError:
            self.drop(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(place / RECORD)
        return files

    def _sealed(self, key: str) -> SealedFolder:
        """An entry. FormatError when it is no entry of that key."""
        folder = SealedFolder(self.folder / key, RECORD)
        if folder.seal.document.get("key") != key:
            raise FormatError(f"{folder.folder / RECORD} is that of another entry", expected=key,
                              found=folder.seal.document.get("key"))
        return folder

    def damaged(self) -> dict[str, str]:
        """What is wrong with entries that are not as they were written, by their keys."""
        found = {}
        for entry in self.entries():
            try:
                self._sealed(entry.key).check()
            except (FormatError, OSError) as error:
                if (self.folder / entry.key).is_dir():  # nobody dropped it meanwhile
                    found[entry.key] = str(error)
        return found

    def put(self, key: str, files: Mapping[str, bytes | memoryview], label: str = "") -> bool:
        """Keeps an entry. False when it could not be written: the disk is full, the folder is not ours."""
        sealed = {**files, RECORD: written_seal(files, key=key, label=label)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_folder(self.folder / key, sealed, durable=self._durable)
        except FileExistsError:
            return True  # somebody else was faster
        except OSError:
            return False
        self.prune(self._limit)
        return True

    def drop(self, key: str) -> None:
        """Removes an entry, if it is there."""
        remove_folder(self.folder / key)

    def entries(self) -> list[CacheEntry]:
        """What is kept, last used first. Nothing is verified."""
        return sorted(self._found(), key=lambda entry: -entry.used)

    def prune(self, size: int | None = None, age: float | None = None) -> list[CacheEntry]:
        """Removes entries not used for `age` seconds, then those used longest ago until `size` bytes are left, and
        what killed writers left. Returns what was removed."""
        self._sweep(STALE)
        now, total, removed = time.time(), 0, []
        for entry in self.entries():
            total += entry.size
            if (age is not None and now - entry.used > age) or (size is not None and total > size):
                removed.append(entry)
                total -= entry.size
                self.drop(entry.key)
        return removed

    def clear(self) -> list[CacheEntry]:
        """Removes every entry. Returns what was removed."""
        self._sweep(0)
        return self.prune(age=-1)

    def _found(self) -> Iterator[CacheEntry]:
        for place in self._places():
            if place.name.startswith("."):
                continue
            try:
                seal = read_seal(place / RECORD)
                used = (place / RECORD).stat().st_mtime
                size, label = sum(size for size, _ in seal.files.values()), str(seal.document.get("label"))
            except (OSError, FormatError):
                used, size, label = 0.0, 0, "damaged"
            yield CacheEntry(place.name, label, size, used)

    def _places(self) -> list[Path]:
        try:
            return [place for place in self.folder.iterdir() if place.is_dir() and _is_ours(place.name)]
        except OSError:
            return []

    def _sweep(self, age: float) -> None:
        """Removes temporary folders older than `age` seconds."""
        for place in self._places():
            with contextlib.suppress(OSError):
                if place.name.startswith(".") and time.time() - place.stat().st_mtime >= age:
                    shutil.rmtree(place, ignore_errors=True)


@cache
def source_digest(rooms: tuple[str, ...]) -> str:
    """A digest of the source of some rooms of this package, folders or files, in hexadecimal."""
    digest = sha256()
    root = Path(__file__).parent
    for room in rooms:
        for path in sorted((root / room).rglob("*.py")) or [root / room]:
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(data)}:".encode(errors="surrogateescape") + data)
    return digest.hexdigest()


def _is_ours(name: str) -> bool:
    """Whether a folder is called like an entry, or like one in the making."""
    key = name.removeprefix(".").partition(".")[0]
    return len(key) == DIGITS and all(character in "0123456789abcdef" for character in key)
