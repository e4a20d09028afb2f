"""The directory an in-memory model is compiled in.

The runtime gives every in-memory model a directory named after the hash of its text and weights, in which it expects
`model.mil` and the weight files before it compiles, and to which it adds files of its own. Two users of one model, in
one process or several, share it: each holds a shared lock on the directory, and whoever can lock it alone removes it.
Locks vanish with the process that holds them, so that a crash leaves nothing that could not be removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from uuid import uuid4

from openane.errors import DeviceError, DeviceUnavailable

TEXT_FILE = "model.mil"
MODEL_PATH = "@model_path/"
"""What paths of weight files begin with in the text."""
ATTEMPTS = 100


class ModelDirectory:
    """The directory of one loaded model, filled."""

    def __init__(self, path: Path, text: str, weights: Mapping[str, bytes]) -> None:
        """Makes the directory and writes the files. DeviceUnavailable when the place cannot be written, DeviceError for
        weight paths that lead out of it."""
        self.path = path
        files = {TEXT_FILE: text.encode()} | {weight_file(name): data for name, data in weights.items()}
        try:
            self._lock = _locked(path)
            try:
                for name, content in files.items():
                    _write(path / name, content)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise DeviceUnavailable(f"the model's files cannot be written to {path}: {error.strerror}",
                                    "make room there, or set TMPDIR to a directory of your own") from None

    def close(self) -> None:
        """Gives the lock back and removes the directory unless somebody else uses it. Closing twice does nothing."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            try:
                _remove_if_alone(self.path, lock)
            finally:
                os.close(lock)


def weight_file(name: str) -> str:
    """The file of a weight path ("@model_path/weights/weight.bin"), relative to the directory. DeviceError for one that
    is absolute or leads out of it."""
    relative = PurePosixPath(name.removeprefix(MODEL_PATH))
    if not name.startswith(MODEL_PATH) or relative.is_absolute() or not relative.parts or ".." in relative.parts:
        raise DeviceError(f"weights must be named {MODEL_PATH}... inside the model's directory, not {name!r}")
    return str(relative)


def remove_abandoned(path: Path) -> None:
    """Removes the directory of a process that is gone, unless somebody else uses it. Does nothing when it is gone."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        _remove_if_alone(path, lock)
    finally:
        os.close(lock)


def _locked(path: Path) -> int:
    """A descriptor with a shared lock on the directory, made when it is not there. A directory that was removed between
    opening and locking is tried again."""
    for _ in range(ATTEMPTS):
        with suppress(FileExistsError):  # what is there, if it still is, is opened
            path.mkdir(0o700)
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            if os.path.samestat(os.fstat(lock), os.lstat(path)):
                return lock
        except FileNotFoundError:
            pass
        os.close(lock)
    raise OSError(0, "it is removed as soon as it is made", str(path))


def _write(path: Path, content: bytes) -> None:
    """The whole file or none of it: another user of the directory may be reading."""
    path.parent.mkdir(0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{uuid4().hex}")
    partial.write_bytes(content)
    partial.replace(path)


def _remove_if_alone(path: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return
    shutil.rmtree(path, ignore_errors=True)
