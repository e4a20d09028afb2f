"""The files of a model: a digest of them, and how they reach a worker that does not see them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from openane.errors import AneError
from openane.formats.mapping import map_file
from openane.importers import READERS, folder_kind

LARGEST_NAMING = 64 << 20
"""Bytes of a file that is searched for the names of others: one that has its weights elsewhere is smaller."""
LARGEST_SENT = 1 << 30
"""Bytes of models that are on their way to workers at a time."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a file that is changed again has another time."""

Files = Mapping[str, bytes]
"""The bytes of a model's files by their names inside it; '' is the model itself where that is a file."""


def model_digest(path: Path) -> str:
    """A digest of a model's bytes: of all files of a folder, or of a file and of those below its folder that it names,
    as one with its weights elsewhere does. A folder that is no model is refused when it is loaded; here it is known by
    its name. OSError where files cannot be read."""
    digest = hashlib.sha256()
    if _is_other_folder(path):
        digest.update(str(path.absolute()).encode(errors="surrogateescape"))
        return digest.hexdigest()
    for name, file in _files(path):
        digest.update(f"{name} {_file_digest(file)}:".encode(errors="surrogateescape"))
    return digest.hexdigest()


def _file_digest(file: Path) -> str:
    """A digest of a file's bytes. A model's is asked for before each job: it is worked out once for a file that is as
    it was, unless it is so new that another change might have the same time."""
    found = file.stat()
    changed = max(found.st_mtime_ns, found.st_ctime_ns)
    version = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
    return _digest_of(file, version) if time.time_ns() - changed > SETTLED else _digest_of.__wrapped__(file, version)


@lru_cache(maxsize=1024)
def _digest_of(file: Path, version: tuple[int, ...]) -> str:
    return hashlib.sha256(map_file(file)).hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """The files of a model, with their names inside it; the name of the file itself has no part in what it is."""
    if path.is_dir():
        yield from ((each.relative_to(path).as_posix(), each) for each in sorted(path.rglob("*")) if each.is_file())
        return
    yield "", path
    if path.stat().st_size > LARGEST_NAMING:
        return
    text = path.read_bytes()
    yield from ((name, each) for name, each in sorted(_named(path.parent, "", text)) if each != path)


def _named(folder: Path, place: str, text: bytes) -> Iterator[tuple[str, Path]]:
    """The files below a folder whose names are in the text; a folder whose own is not has none."""
    for each in folder.iterdir():
        name = place + each.name
        if name.encode(errors="surrogateescape") in text:
            if each.is_file():
                yield name, each
            elif each.is_dir() and not each.is_symlink():
                yield from _named(each, f"{name}/", text)


def _is_other_folder(path: Path) -> bool:
    return path.is_dir() and folder_kind(path) not in READERS


def is_here(path: str, digest: str) -> bool:
    """Whether there is a model of this digest at a path: a worker may see none there, or another one."""
    try:
        return model_digest(Path(path)) == digest
    except OSError:
        return False


def readable(path: str) -> Files | None:
    """A model's files, to be sent; None where there is nothing to send (a folder that is no model) or more than
    `LARGEST_SENT` bytes. OSError where they cannot be read."""
    model = Path(path)
    if _is_other_folder(model):
        return None
    found = list(_files(model))
    if sum(file.stat().st_size for _, file in found) > LARGEST_SENT:
        return None
    return {name: file.read_bytes() for name, file in found}


@contextmanager
def unpacked(name: str, files: Files, within: str | None = None) -> Iterator[Path]:
    """The model of that name made of its files, in a folder that goes away, inside another one or that of temporary
    files. AneError where it cannot be written."""
    with TemporaryDirectory(prefix="openane-farm-", dir=within, ignore_cleanup_errors=True) as folder:
        model = Path(folder) / name
        # A file lies beside those that it names, a folder holds them.
        base = model.parent if "" in files else model
        try:
            for inside, data in files.items():
                file = base / inside if inside else model
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        except OSError as error:
            raise AneError(f"a worker cannot write the model it was sent: {error}") from None
        yield model
