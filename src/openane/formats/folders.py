"""Folders that appear complete or not at all, whoever else writes to the same place or stops half-way."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from openane.formats.files import umask

Contents = Mapping[str, bytes | memoryview]
"""Bytes by path within the folder, with slashes."""


def write_folder(target: Path, files: Contents, *, durable: bool = False, replace: bool = False) -> None:
    """Makes the folder `target` of `files`, in a temporary folder beside it that is then renamed.

    `durable`: everything has reached the disk before the folder has its name, so that not even a crash of the machine
    leaves a torn one. `replace` puts it in the place of a folder that is there, for an instant none is; otherwise a
    folder with something in it is a FileExistsError. OSError, which names `target`, when the disk is full; all is as
    before then.
    """
    temporary = _temporary(target)
    try:
        for name, data in files.items():
            _write(temporary / name, data, durable)
        if durable:
            for folder in {parent for name in files for parent in (temporary / name).parents
                           if temporary in (parent, *parent.parents)}:
                _synchronise(folder)
        _exchange(temporary, target, replace)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise OSError(error.errno, error.strerror, str(target)) from None
        raise
    if durable:
        _synchronise(target.parent)


def _exchange(source: Path, target: Path, replace: bool) -> None:
    old = _temporary(target) if replace and target.exists() else None
    if old is not None:
        os.rename(target, old)  # over the empty one
    try:
        os.rename(source, target)
    except OSError as error:
        if old is not None:
            os.rename(old, target)
        elif target.exists():
            raise FileExistsError(error.errno, "there is something already", str(target)) from None
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def remove_folder(target: Path) -> None:
    """Removes a folder so that nobody finds half of it under its name."""
    with contextlib.suppress(OSError):
        away = _temporary(target)
        try:
            os.rename(target, away)
        finally:
            shutil.rmtree(away, ignore_errors=True)


def _temporary(target: Path) -> Path:
    """A fresh folder beside `target`, hidden, readable as folders usually are."""
    try:
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None
    os.chmod(folder, 0o777 & ~umask())
    return folder


def _write(path: Path, data: bytes | memoryview, durable: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def _synchronise(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
