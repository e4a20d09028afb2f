"""The machine a check looks at, as an interface, so that any machine can be described in a test."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from importlib import metadata, util
from pathlib import Path
from typing import Protocol

SECONDS = 20
LARGEST = 1 << 20


class Machine(Protocol):
    """What can be asked about a machine. Nothing here raises; None means that it could not be found out."""

    @property
    def system(self) -> str:
        """`Linux`, `Darwin`, or another name of `platform.system`."""
        ...

    @property
    def architecture(self) -> str:
        """Of the Python that runs: `arm64`, `aarch64`, `x86_64`."""
        ...

    @property
    def python(self) -> tuple[int, int]:
        """Python's version."""
        ...

    @property
    def executable(self) -> str:
        """Path of the Python that runs."""
        ...

    def package(self, name: str) -> str | None:
        """Version of an installed distribution."""
        ...

    def read(self, path: str) -> bytes | None:
        """A small file."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        ...

    def may(self, path: str, write: bool = True) -> bool:
        """Whether this user may read (and write) it."""
        ...

    def output(self, *command: str) -> str | None:
        """What a command prints, on both streams; None when it is not there or fails."""
        ...

    def folder(self, variable: str) -> str:
        """A folder an environment variable names, or an empty string."""
        ...


class ThisMachine:
    """See `Machine`."""

    @property
    def system(self) -> str:
        """See `Machine.system`."""
        return platform.system()

    @property
    def architecture(self) -> str:
        """See `Machine.architecture`."""
        return platform.machine()

    @property
    def python(self) -> tuple[int, int]:
        """See `Machine.python`."""
        major, minor, _ = platform.python_version_tuple()
        return int(major), int(minor)

    @property
    def executable(self) -> str:
        """See `Machine.executable`."""
        return os.path.realpath(sys.executable)

    def package(self, name: str) -> str | None:
        """See `Machine.package`."""
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "present" if util.find_spec(name) is not None else None

    def read(self, path: str) -> bytes | None:
        """See `Machine.read`."""
        try:
            with Path(path).open("rb") as file:
                return file.read(LARGEST)
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """See `Machine.exists`."""
        return os.path.exists(path)

    def may(self, path: str, write: bool = True) -> bool:
        """See `Machine.may`."""
        return os.access(path, os.R_OK | (os.W_OK if write else 0))

    def output(self, *command: str) -> str | None:
        """See `Machine.output`."""
        found = shutil.which(command[0])
        if found is None:
            return None
        try:
            done = subprocess.run([found, *command[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    def folder(self, variable: str) -> str:
        """See `Machine.folder`."""
        return os.environ.get(variable, "")
